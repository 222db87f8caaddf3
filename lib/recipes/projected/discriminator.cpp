// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/resample.h"
#include "recipes/projected/recipe.h"

namespace gantrain::projected {

namespace {

constexpr int64_t kHeads = 4;
constexpr double kSlope = 0.2;

std::shared_ptr<SpectralWeight> add_weight(ModuleGroup& parent,
                                           const std::string& name,
                                           std::vector<int64_t> shape,
                                           int64_t bias = 0) {
  return add_child<SpectralWeight>(
      parent, name, SpectralWeight::Config{.shape = std::move(shape), .bias = bias});
}

// Feature maps of a head at a nominal size: 64 at 128 and 64, 512 at 8.
int64_t head_width(const DiscriminatorShape& s, int64_t nominal) {
  return s.ndf.value_or(std::min(int64_t{64} * 64 / nominal, int64_t{512}));
}

// How often head i halves its map: 4 - i times, or as often as leaves 4 pixels of a map of a small
// input.
int64_t halvings(const DiscriminatorShape& s, int64_t i) {
  const int64_t side = s.input >> (i + 1);
  int64_t times = 0;
  while (times < kHeads - i && side >> (times + 1) >= 4) ++times;
  return times;
}

}  // namespace

ProjectedFeatures::ProjectedFeatures(const DiscriminatorShape& shape) : script(shape.script) {
  if (script) {
    register_module("pretrained", script);
  } else {
    pretrained = add_child<Lite0>(*this, "pretrained", shape.features);
  }
  const auto scratch = add_child<ModuleGroup>(*this, "scratch");
  const std::array<int64_t, 4> in = script ? script->channels() : shape.features.map_channels();
  const std::array<int64_t, 4> out = widths(shape.cout);
  const auto add = [](ModuleGroup& parent, const std::string& name, int64_t from, int64_t to) {
    const auto layer = add_child<ModuleGroup>(parent, name);
    return Projection{layer->register_buffer("weight", torch::zeros({to, from, 1, 1})),
                      layer->register_buffer("bias", torch::zeros({to}))};
  };
  for (size_t i = 0; i < in.size(); ++i) {
    const std::string layer = "layer" + std::to_string(i);
    const int64_t mixed = shape.cout << i;
    across_channels_[i] = add(*scratch, layer + "_ccm", in[i], mixed);
    const auto csm = add_child<ModuleGroup>(*scratch, layer + "_csm");
    across_scales_[i] = add(*csm, "out_conv", mixed, out[i]);
  }
}

std::array<int64_t, 4> ProjectedFeatures::widths(int64_t cout) {
  return {cout, cout, 2 * cout, 4 * cout};
}

std::array<Tensor, 4> ProjectedFeatures::forward(const Tensor& x) {
  const auto maps = in_block("feature_network.pretrained",
                             [&] { return script ? script->maps(x) : pretrained->maps(x); });
  const BlockScope named("feature_network.scratch");
  return mixed(maps);
}

std::array<Tensor, 4> ProjectedFeatures::mixed(const std::array<Tensor, 4>& maps,
                                               std::array<Tensor, 4>* mixed_channels) {
  std::array<Tensor, 4> out;
  for (size_t i = maps.size(); i-- > 0;) {
    const Projection &channels = across_channels_[i], &scales = across_scales_[i];
    Tensor y = autocast_conv2d(maps[i], channels.weight, channels.bias);
    if (mixed_channels != nullptr) (*mixed_channels)[i] = y;
    if (i + 1 < maps.size()) y = y + out[i + 1];
    y = resized_bilinear(y, 2 * y.size(2), 2 * y.size(3), Corners::kMiddles);
    out[i] = autocast_conv2d(y, scales.weight, scales.bias);
  }
  return out;
}

void ProjectedFeatures::initialise(uint64_t seed, const std::string& name) {
  if (pretrained) pretrained->initialise(seed);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < across_channels_.size(); ++i) {
    for (const bool scales : {false, true}) {
      Projection& p = (scales ? across_scales_ : across_channels_)[i];
      const std::string purpose = fmt::format("{}{}{}", name, scales ? "csm" : "ccm", i);
      const double bound = 1 / std::sqrt(static_cast<double>(p.weight.size(1)));
      p.weight.copy_(uniform_like(p.weight, bound, seed, purpose + "/weight"));
      p.bias.copy_(uniform_like(p.bias, bound, seed, purpose + "/bias"));
    }
  }
}

Head::Head(const DiscriminatorShape& s, int64_t i, std::string head_name)
    : name(std::move(head_name)) {
  const auto main = add_child<ModuleGroup>(*this, "main");
  int64_t in = ProjectedFeatures::widths(s.cout).at(static_cast<size_t>(i));
  int64_t nominal = int64_t{128} >> i;
  const int64_t count = halvings(s, i);
  for (int64_t j = 0; j < count; ++j) {
    nominal /= 2;
    const int64_t out = head_width(s, nominal);
    add_block(*main, j, in, out, s.separable);
    in = out;
  }
  if (s.c_dim == 0) {
    last = add_weight(*main, std::to_string(count), {1, in, 4, 4});
    return;
  }
  last = add_child<SpectralWeight>(
      *this, "cls", SpectralWeight::Config{.shape = {s.cmap_dim, in, 4, 4}});
  embedding = add_child<Weight>(*this, "embed", at::IntArrayRef({s.c_dim, s.embedding}));
  const auto linear = add_child<ModuleGroup>(*add_child<ModuleGroup>(*this, "embed_proj"), "0");
  class_weight = linear->register_parameter("weight", torch::zeros({s.cmap_dim, s.embedding}));
  class_bias = linear->register_parameter("bias", torch::zeros({s.cmap_dim}));
}

void Head::add_block(ModuleGroup& main, int64_t number, int64_t in, int64_t out, bool separable) {
  const auto block = add_child<ModuleGroup>(main, std::to_string(number));
  const auto layers = add_child<ModuleGroup>(*block, "main");
  Block b;
  if (separable) {
    const auto both = add_child<ModuleGroup>(*layers, "0");
    b.convolutions = {add_weight(*both, "depthwise", {in, 1, 3, 3}),
                      add_weight(*both, "pointwise", {out, in, 1, 1})};
  } else {
    b.convolutions = {add_weight(*layers, "0", {out, in, 4, 4}, out)};
  }
  b.norm = add_child<BatchNorm2d>(*layers, "1", out, fmt::format("main.{}.main.1", number));
  blocks.push_back(b);
}

Tensor Head::class_maps(const Tensor& labels) const {
  TORCH_CHECK(labels.defined(), "a conditional network needs labels");
  const Tensor y = at::embedding(embedding->weight, labels.to(embedding->weight.device()));
  return torch::leaky_relu(autocast_linear(y, class_weight, class_bias), kSlope);
}

Tensor Head::forward(const Tensor& input, const Tensor& labels) {
  const BlockScope named(name);
  Tensor x = input;
  for (const Block& block : blocks) {
    SpectralWeight& first = *block.convolutions.front();
    if (block.convolutions.size() == 2) {
      SpectralWeight& second = *block.convolutions.back();
      const ConvPlace depthwise{.padding = {1, 1}, .groups = x.size(1)};
      x = autocast_conv2d(x, first.normalised(), {}, depthwise);
      x = autocast_conv2d(x, second.normalised());
    } else {
      x = autocast_conv2d(x, first.normalised(), first.bias, {2, {1, 1}});
    }
    x = torch::leaky_relu(block.norm->forward(x), kSlope);
    if (block.convolutions.size() == 2) x = at::avg_pool2d(x, 2);
  }
  const AutocastDisabled exact("the last convolution: scores");
  x = autocast_conv2d(x, last->normalised());
  if (embedding) {
    const double norm = std::sqrt(static_cast<double>(class_weight.size(0)));
    x = (x * class_maps(labels).unsqueeze(2).unsqueeze(3)).sum(1) / norm;
  }
  return x.flatten(1);
}

Discriminator::Discriminator(const DiscriminatorShape& s) : shape(s) {
  features = add_child<ProjectedFeatures>(*this, "feature_network", s);
  const auto group = add_child<ModuleGroup>(*this, "discriminator");
  const auto minis = add_child<ModuleGroup>(*group, "mini_discs");
  for (int64_t i = 0; i < kHeads; ++i) {
    const std::string number = std::to_string(i);
    heads.push_back(add_child<Head>(*minis, number, s, i, "discriminator.mini_discs." + number));
  }
}

Tensor Discriminator::forward(const Tensor& pictures, const Tensor& labels) {
  Tensor x = in_statistics_type(pictures);
  if (x.size(1) == 1) x = x.expand({-1, 3, -1, -1});
  if (x.size(2) < shape.input)
    x = resized_bilinear(x.contiguous(), shape.input, shape.input, Corners::kOfPixels);
  const std::array<Tensor, 4> maps = features->forward(in_fast_layout(x));
  std::vector<Tensor> logits;
  for (size_t i = 0; i < heads.size(); ++i)
    logits.push_back(heads[i]->forward(in_fast_layout(maps[i]), labels));
  return at::cat(logits, 1);
}

void initialise(Discriminator& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  network.features->initialise(seed, "init/" + player + "/feature_network.");
  initialise_spectral_weights(network, player, seed);
  for (const auto& head : network.heads) {
    if (!head->embedding) continue;
    const std::string purpose = "init/" + player + "/" + head->name + ".";
    Tensor& classes = head->embedding->weight;
    classes.copy_(normal_like(classes, seed, purpose + "embed"));
    const double bound = 1 / std::sqrt(static_cast<double>(head->class_weight.size(1)));
    head->class_weight.copy_(uniform_like(head->class_weight, bound, seed, purpose + "weight"));
    head->class_bias.copy_(uniform_like(head->class_bias, bound, seed, purpose + "bias"));
  }
}

}  // namespace gantrain::projected
