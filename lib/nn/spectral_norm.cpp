// SPDX-License-Identifier: Apache-2.0
#include "nn/spectral_norm.h"

#include <cmath>

#include "core/random.h"
#include "core/torch.h"
#include "ops/autocast.h"

namespace gantrain {

namespace {

constexpr double kShortest = 1e-12;
constexpr int kFirstSteps = 15;

Tensor unit_vector(const Tensor& x) { return x / x.norm().clamp_min(kShortest); }

int64_t product_of(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

// What forward passes have made of a running statistic so far.
Tensor present(const Tensor& buffer) {
  RunningStatistics* noted = noted_running_statistics();
  return noted == nullptr ? buffer : noted->next(buffer);
}

void move(Tensor& buffer, const Tensor& value) {
  RunningStatistics* noted = noted_running_statistics();
  if (noted == nullptr) {
    buffer.copy_(value);
  } else {
    noted->next(buffer) = value;
  }
}

}  // namespace

SpectralWeight::SpectralWeight(const Config& c) : output_axis_(c.output_axis) {
  const int64_t outputs = c.shape.at(static_cast<size_t>(c.output_axis));
  if (c.bias > 0) bias = register_parameter("bias", torch::zeros({c.bias}));
  weight_orig = register_parameter("weight_orig", torch::zeros(c.shape));
  weight_u = register_buffer("weight_u", torch::zeros({outputs}));
  weight_v = register_buffer("weight_v", torch::zeros({product_of(c.shape) / outputs}));
}

Tensor SpectralWeight::matrix() const {
  return (output_axis_ == 0 ? weight_orig : weight_orig.transpose(0, output_axis_)).flatten(1);
}

Tensor SpectralWeight::normalised() {
  const WithoutAutocast exact;
  const Tensor m = matrix();
  Tensor u = weight_u, v = weight_v;
  if (is_training()) {
    const torch::NoGradGuard no_grad;
    const Tensor fixed = m.detach();
    v = unit_vector(fixed.t().mv(present(weight_u)));
    u = unit_vector(fixed.mv(v));
    move(weight_u, u);
    move(weight_v, v);
  }
  return weight_orig / u.dot(m.mv(v));
}

void SpectralWeight::initialise(uint64_t seed, const std::string& name) {
  const torch::NoGradGuard no_grad;
  const auto fan_in = static_cast<double>(weight_orig.numel() / weight_orig.size(0));
  const double bound = 1 / std::sqrt(fan_in);
  weight_orig.copy_(uniform_like(weight_orig, bound, seed, name + "weight_orig"));
  if (bias.defined()) bias.copy_(uniform_like(bias, bound, seed, name + "bias"));
  weight_u.copy_(unit_vector(normal_like(weight_u, seed, name + "weight_u")));
  const Tensor m = matrix();
  for (int step = 0; step < kFirstSteps; ++step) {
    weight_v.copy_(unit_vector(m.t().mv(weight_u)));
    weight_u.copy_(unit_vector(m.mv(weight_v)));
  }
}

void initialise_spectral_weights(torch::nn::Module& network,
                                 const std::string& player,
                                 uint64_t seed) {
  for (const auto& item : network.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (auto* layer = dynamic_cast<SpectralWeight*>(item.value().get()))
      layer->initialise(seed, "init/" + player + "/" + item.key() + ".");
  }
}

Tensor uniform_like(const Tensor& tensor, double bound, uint64_t seed, const std::string& purpose) {
  const Tensor drawn = uniform(Stream(seed, purpose), {0, 1, 1}, {tensor.numel()});
  return (drawn.reshape(tensor.sizes()) * 2 - 1).mul_(bound).to(tensor.options());
}

}  // namespace gantrain
