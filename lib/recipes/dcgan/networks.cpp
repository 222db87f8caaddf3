// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/networks.h"

#include "core/forward_precision.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "gan/model_json.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "util/error.h"
#include "util/size.h"
#include "util/text.h"

namespace gantrain::dcgan {

using at::Tensor;

namespace {

// An empty child named "main", as nn.Sequential is in the reference.
struct Main final : torch::nn::Module {};

std::shared_ptr<Convolution> add_convolution(Main& main,
                                             int64_t index,
                                             const std::vector<int64_t>& weight_shape,
                                             int64_t bias_size) {
  const std::string name = std::to_string(index);
  return main.register_module(
      name, std::make_shared<Convolution>("main." + name, weight_shape, bias_size));
}

std::shared_ptr<BatchNorm2d> add_norm(Main& main, int64_t index, int64_t channels) {
  const std::string name = std::to_string(index);
  return main.register_module(name, std::make_shared<BatchNorm2d>(channels, "main." + name));
}

}  // namespace

Convolution::Convolution(std::string name, std::vector<int64_t> weight_shape, int64_t bias_size)
    : block(std::move(name)) {
  weight = register_parameter("weight", torch::zeros(weight_shape));
  if (bias_size > 0) bias = register_parameter("bias", torch::zeros({bias_size}));
}

Generator::Generator(const Shape& s) : shape(s) {
  const auto main = register_module("main", std::make_shared<Main>());
  const auto [start, last] = doubled_size(s.resolution);
  int64_t in = s.latent;
  for (int64_t i = 0; i <= last; ++i) {
    const bool hidden = i < last;
    const int64_t out = hidden ? std::max<int64_t>(1, s.channels >> i) : s.image_channels;
    const bool bias = hidden && s.norm == Norm::kNone;
    const Size kernel = i == 0 ? start : square_of(4);
    // The reference's nn.Sequential counts convolution, norm and ReLU.
    convolutions.push_back(
        add_convolution(*main, 3 * i, {in, out, kernel.height, kernel.width}, bias ? out : 0));
    norms.push_back(nullptr);
    if (hidden && s.norm == Norm::kBatch) norms.back() = add_norm(*main, 3 * i + 1, out);
    in = out;
  }
}

Tensor Generator::forward(const Tensor& z) {
  Tensor x = z.reshape({z.size(0), -1, 1, 1});
  for (size_t i = 0; i < convolutions.size(); ++i) {
    const int64_t stride = i == 0 ? 1 : 2;
    const int64_t padding = i == 0 ? 0 : 1;
    const Convolution& layer = *convolutions[i];
    {
      const BlockScope named(layer.block);
      x = autocast_conv_transpose2d(x, layer.weight, layer.bias, {stride, {padding, padding}});
    }
    if (i == 0) x = in_fast_layout(x);
    if (norms[i]) x = norms[i]->forward(x);
    if (i + 1 < convolutions.size()) x = torch::relu(x);
  }
  return torch::tanh(x.to(convolutions[0]->weight.scalar_type()));
}

Discriminator::Discriminator(const Shape& s) : shape(s) {
  const auto main = register_module("main", std::make_shared<Main>());
  const auto [start, last] = doubled_size(s.resolution);
  int64_t in = s.image_channels;
  int64_t index = 0;
  for (int64_t i = 0; i <= last; ++i) {
    const bool hidden = i < last;
    const int64_t out = hidden ? s.channels << i : 1;
    const bool bias = hidden && s.norm == Norm::kNone;
    const Size kernel = hidden ? square_of(4) : start;
    convolutions.push_back(
        add_convolution(*main, index++, {out, in, kernel.height, kernel.width}, bias ? out : 0));
    norms.push_back(nullptr);
    // The reference counts a norm from the second layer on, and the leaky ReLU.
    if (hidden && i > 0) {
      if (s.norm == Norm::kBatch) norms.back() = add_norm(*main, index, out);
      ++index;
    }
    ++index;
    in = out;
  }
}

Tensor Discriminator::forward(const Tensor& images) {
  Tensor x = in_fast_layout(images);
  for (size_t i = 0; i < convolutions.size(); ++i) {
    const bool hidden = i + 1 < convolutions.size();
    const Convolution& layer = *convolutions[i];
    const int64_t padding = hidden ? 1 : 0;
    {
      const BlockScope named(layer.block);
      const AutocastDisabled exact("the last 4x4 block: scores", !hidden);
      x = autocast_conv2d(x, layer.weight, layer.bias, {hidden ? 2 : 1, {padding, padding}});
    }
    if (norms[i]) x = norms[i]->forward(x);
    if (hidden) x = torch::leaky_relu(x, 0.2);
  }
  return x.reshape({-1});
}

void initialise(torch::nn::Module& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : network.named_parameters()) {
    const Tensor& p = item.value();
    if (ends_with(item.key(), "bias")) {
      p.zero_();
      continue;
    }
    const double mean = p.dim() == 1 ? 1.0 : 0.0;  // batch norm's scale, or a convolution
    p.copy_(mean + 0.02 * normal_like(p, seed, "init/" + player + "/" + item.key()));
  }
}

namespace {

// Whether a generator's convolution of that number can have this weight: kernels are 4x4, the first
// one has the start's size.
bool has_kernel(const Tensor& weight, int64_t layer) {
  if (weight.dim() != 4) return false;
  const Size kernel{weight.size(3), weight.size(2)};
  if (layer > 0) return kernel == square_of(4);
  const auto start = find_doubled_size(kernel);
  return start && start->doublings == 0;
}

}  // namespace

Shape generator_shape(const std::map<std::string, Tensor>& tensors, const std::string& source) {
  const auto weight = [&](int64_t layer) -> const Tensor* {
    const auto at = tensors.find("main." + std::to_string(3 * layer) + ".weight");
    return at == tensors.end() ? nullptr : &at->second;
  };
  const Tensor* first =
      &GeneratorTensors{tensors, source, "a DCGAN generator"}.get("main.0.weight");
  Shape shape;
  DoubledSize size{.start = first->dim() == 4 ? Size{first->size(3), first->size(2)} : Size{}};
  const Tensor* last = first;
  for (int64_t layer = 0; weight(layer) != nullptr; ++layer) {
    last = weight(layer);
    if (!has_kernel(*last, layer)) {
      fail(Exit::kInput,
           "{}: tensor main.{}.weight has shape [{}]; a DCGAN generator's are [in, out, 4, 4], the "
           "first one's may be larger (4 to 7 on the shorter side)",
           source,
           3 * layer,
           fmt::join(last->sizes(), ", "));
    }
    if (layer > 0) ++size.doublings;
  }
  shape.resolution = size.at(size.nominal());
  shape.latent = first->size(0);
  shape.channels = first->size(1);
  shape.image_channels = last->size(1);
  shape.norm = tensors.count("main.1.weight") != 0 ? Norm::kBatch : Norm::kNone;
  if (last == first)
    fail(
        Exit::kInput, "{}: a DCGAN generator has at least main.0.weight and main.3.weight", source);
  return shape;
}

}  // namespace gantrain::dcgan
