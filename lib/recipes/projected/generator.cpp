// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "gan/model_json.h"
#include "ops/autocast.h"
#include "ops/convolution/convolution.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"
#include "recipes/projected/recipe.h"

namespace gantrain::projected {

namespace {

const std::string kSynthesis = "synthesis.";

std::string block_name(int64_t r) { return fmt::format("{}feat_{}", kSynthesis, r); }

// The small maps that scale larger ones: 4 -> 64, 8 -> 128, 16 -> 256, 32 -> 512.
bool has_excitation(int64_t r) { return r >= 64 && r <= 512; }

std::shared_ptr<SpectralWeight> add_convolution(torch::nn::Module& parent,
                                                const std::string& name,
                                                std::vector<int64_t> shape) {
  return add_child<SpectralWeight>(parent, name, SpectralWeight::Config{std::move(shape)});
}

// A convolution that keeps the size.
Tensor convolved(SpectralWeight& layer, const Tensor& x) {
  const int64_t pad = layer.weight_orig.size(2) / 2;
  return autocast_conv2d(x, layer.normalised(), layer.bias, {.padding = {pad, pad}});
}

// The first half of the feature maps times the sigmoid of the second (Dauphin et al. 2017).
Tensor gated(const Tensor& x) { return at::glu(x, 1); }

}  // namespace

int64_t Shape::width(int64_t r) const {
  const double times = r <= 4    ? 16
                       : r <= 16 ? 64. / static_cast<double>(r)
                       : r <= 64 ? 2
                                 : 128. / static_cast<double>(r);
  return std::max(static_cast<int64_t>(times * static_cast<double>(ngf)), int64_t{1});
}

std::vector<int64_t> Shape::blocks() const {
  const int64_t last =
      img_resolution < 128 ? img_resolution : std::max(img_resolution, int64_t{256});
  std::vector<int64_t> all;
  for (int64_t r = 8; r <= last; r *= 2) all.push_back(r);
  return all;
}

Json to_json(const Shape& s) {
  Json synthesis = {{"lite", s.lite}};
  if (s.c_dim > 0) synthesis["num_classes"] = s.num_classes;
  return {{"recipe", "projected"},
          {"z_dim", s.z_dim},
          {"c_dim", s.c_dim},
          {"img_resolution", s.img_resolution},
          {"img_channels", s.img_channels},
          {"ngf", s.ngf},
          {"cond", s.c_dim > 0 ? 1 : 0},
          {"synthesis_kwargs", synthesis}};
}

namespace {

const std::string kStart = kSynthesis + "init.init.0.weight_orig";
const std::string kToImage = kSynthesis + "to_big.weight_orig";
const std::string kEmbedding = kSynthesis + "embed.weight";

// The members of a generator's "gantrain.model" that its tensors leave open or repeat.
struct Said {
  std::optional<int64_t> z_dim, c_dim, img_resolution, img_channels, ngf, num_classes;
  std::optional<bool> lite;
};

template <class Field>
void fields(Said& s, Field&& field) {
  field("z_dim", s.z_dim, at_least(1), "length of z");
  field("c_dim", s.c_dim, at_least(0), "classes");
  field("img_resolution", s.img_resolution, power_of_two(8, 1024), "pixels");
  field("img_channels", s.img_channels, between(1, 4), "channels of the pictures");
  field("ngf", s.ngf, at_least(1), "feature maps at 128 pixels");
  field("synthesis_kwargs.lite", s.lite, "the lite generator");
  field("synthesis_kwargs.num_classes", s.num_classes, at_least(0), "rows of the class table");
}

template <class T>
void check_said(const std::string& source, const char* key, const std::optional<T>& said, T seen) {
  if (said && *said != seen)
    refuse_file(source, "gantrain.model: {} = {}, but the tensors have {}", key, *said, seen);
}

// The weight of a block's last convolution.
std::string last_weight(const Shape& s, int64_t r) {
  const char* name = s.c_dim > 0 ? (s.lite ? "conv" : "conv2") : (s.lite ? "1" : "5");
  return fmt::format("{}.{}.weight_orig", block_name(r), name);
}

// The pictures' size is that of a block which makes as many feature maps as the last layer takes.
int64_t resolution_of(const GeneratorTensors& given, const Shape& s, const Said& said) {
  const int64_t taken = given.size(kToImage, 4, 1);
  int64_t found = 0;
  for (int64_t r = 8; r <= 1024; r *= 2) {
    if (!given.has(last_weight(s, r)) || s.width(r) != taken) continue;
    found = r;
    if (said.img_resolution == r) break;
  }
  if (found == 0) {
    refuse_file(given.source,
                "tensor {} takes {} feature maps, which no block {}* makes with ngf = {}",
                kToImage,
                taken,
                kSynthesis + "feat_",
                s.ngf);
  }
  return found;
}

}  // namespace

Shape generator_shape(const Json& model, const TensorMap& tensors, const std::string& source) {
  Said said;
  read_model(model, source, said);
  const GeneratorTensors given{tensors, source, "a FastGAN generator"};
  Shape s;
  s.z_dim = given.get(kStart, 4).size(0);
  s.ngf = given.get(kStart, 4).size(1) / 32;
  s.img_channels = given.get(kToImage, 4).size(0);
  if (given.has(kEmbedding)) {
    s.num_classes = given.get(kEmbedding, 2).size(0);
    s.c_dim = said.c_dim.value_or(0) > 0 ? *said.c_dim : s.num_classes;
  }
  s.lite = !given.has(last_weight(s, 8));  // that of the second convolution
  s.img_resolution = resolution_of(given, s, said);
  check_said(source, "z_dim", said.z_dim, s.z_dim);
  check_said(source, "ngf", said.ngf, s.ngf);
  check_said(source, "img_channels", said.img_channels, s.img_channels);
  check_said(source, "img_resolution", said.img_resolution, s.img_resolution);
  check_said(source, "synthesis_kwargs.lite", said.lite, s.lite);
  check_said(source, "c_dim", said.c_dim, s.c_dim);
  if (s.c_dim > s.num_classes)
    refuse_file(source, "c_dim = {}, but {} has {} rows", s.c_dim, kEmbedding, s.num_classes);
  return s;
}

ConditionalBatchNorm::ConditionalBatchNorm(int64_t channels,
                                           int64_t features,
                                           std::string block_name)
    : block(std::move(block_name)) {
  const SpectralWeight::Config linear{.shape = {channels, features}, .bias = channels};
  gain = add_child<SpectralWeight>(*this, "gain", linear);
  bias = add_child<SpectralWeight>(*this, "bias", linear);
  stored_mean = register_buffer("stored_mean", torch::zeros({channels}));
  stored_var = register_buffer("stored_var", torch::ones({channels}));
}

Tensor ConditionalBatchNorm::forward(const Tensor& x, const Tensor& y) {
  const BlockScope named(block);
  const auto of_class = [&](SpectralWeight& linear) {
    const AutocastDisabled exact("classes scale everything else");
    return autocast_linear(y, linear.normalised(), linear.bias)
        .unsqueeze(2)
        .unsqueeze(3)
        .to(x.scalar_type());
  };
  const Tensor scale = 1 + of_class(*gain), shift = of_class(*bias);
  note_computed(statistics_type(x.scalar_type()), "statistics");
  return batch_normalised(x, {stored_mean, stored_var}, is_training(), *this) * scale + shift;
}

FeatureBlock::FeatureBlock(const Shape& s, int64_t r) : name(block_name(r)) {
  const int64_t count = s.lite ? 1 : 2, out = 2 * s.width(r);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t> weight = {out, i == 0 ? s.width(r / 2) : s.width(r), 3, 3};
    const std::string number = s.lite ? "" : std::to_string(i + 1);
    const auto place = [&](int64_t at) { return std::to_string(4 * i + at); };
    if (s.c_dim > 0) {
      convolutions.push_back(add_convolution(*this, "conv" + number, weight));
      conditional_norms.push_back(
          add_child<ConditionalBatchNorm>(*this, "bn" + number, out, s.z_dim, "bn" + number));
      continue;
    }
    convolutions.push_back(add_convolution(*this, place(1), weight));
    if (!s.lite) noises.push_back(add_child<Weight>(*this, place(2), at::IntArrayRef({1})));
    const std::string norm = place(s.lite ? 2 : 3);
    norms.push_back(add_child<BatchNorm2d>(*this, norm, out, norm));
  }
  if (s.lite || s.c_dim == 0) return;
  noises.assign(2, add_child<Weight>(*this, "noise", at::IntArrayRef({1})));
}

Tensor FeatureBlock::forward(const Tensor& input, const Tensor& y, NoiseTaken& noise) {
  const BlockScope named(name);
  Tensor x = nearest_up(input);
  for (size_t i = 0; i < convolutions.size(); ++i) {
    x = convolved(*convolutions[i], x);
    if (!noises.empty()) {
      const Tensor added = noise.inputs(noise.next++, {x.size(3), x.size(2)});
      if (added.defined()) x = x + (noises[i]->weight * added).to(x.scalar_type());
    }
    x = gated(norms.empty() ? conditional_norms[i]->forward(x, y) : norms[i]->forward(x));
  }
  return x;
}

SkipExcitation::SkipExcitation(int64_t in, int64_t out, std::string block_name)
    : block(std::move(block_name)) {
  const auto main = add_child<ModuleGroup>(*this, "main");
  first = add_convolution(*main, "1", {out, in, 4, 4});
  second = add_convolution(*main, "3", {out, out, 1, 1});
}

Tensor SkipExcitation::forward(const Tensor& small, const Tensor& large) {
  const BlockScope named(block);
  const Tensor pooled = small.size(2) == 4 ? small : at::avg_pool2d(small, small.size(2) / 4);
  const Tensor hidden = at::silu(autocast_conv2d(pooled, first->normalised()));
  return large * at::sigmoid(convolved(*second, hidden)).to(large.scalar_type());
}

Generator::Generator(const Shape& s) : shape(s) {
  const auto synthesis = add_child<ModuleGroup>(*this, "synthesis");
  const auto init = add_child<ModuleGroup>(*add_child<ModuleGroup>(*synthesis, "init"), "init");
  const int64_t out = 2 * s.width(4);
  start = add_child<SpectralWeight>(
      *init, "0", SpectralWeight::Config{.shape = {s.z_dim, out, 4, 4}, .output_axis = 1});
  start_norm = add_child<BatchNorm2d>(*init, "1", out, "1");
  for (const int64_t r : s.blocks())
    blocks[r] = add_child<FeatureBlock>(*synthesis, fmt::format("feat_{}", r), s, r);
  for (const int64_t r : s.blocks()) {
    const std::string name = fmt::format("se_{}", r);
    if (has_excitation(r))
      excitations[r] = add_child<SkipExcitation>(
          *synthesis, name, s.width(r / 16), s.width(r), kSynthesis + name);
  }
  to_image = add_child<SpectralWeight>(
      *synthesis,
      "to_big",
      SpectralWeight::Config{.shape = {s.img_channels, s.width(s.img_resolution), 3, 3},
                             .bias = s.img_channels});
  if (s.c_dim > 0)
    embedding = add_child<Weight>(*synthesis, "embed", at::IntArrayRef({s.num_classes, s.z_dim}));
}

bool Generator::uses(const std::string& parameter) const {
  for (const auto& item : blocks) {
    const int64_t r = item.first;
    if (r <= shape.img_resolution) continue;
    if (parameter.starts_with(block_name(r) + ".") ||
        parameter.starts_with(fmt::format("{}se_{}.", kSynthesis, r)))
      return false;
  }
  return true;
}

Tensor Generator::forward(const Tensor& z, const Tensor& labels, const NoiseInputs& noise) {
  return forward(z, labels, noise, [](const std::string&, const Tensor&) {});
}

Tensor Generator::forward(const Tensor& z,
                          const Tensor& labels,
                          const NoiseInputs& noise,
                          const Seen& seen) {
  Tensor y;
  if (embedding) {
    TORCH_CHECK(labels.defined(), "a conditional network needs labels");
    const BlockScope named(kSynthesis + "embed");
    note_computed(embedding->weight.scalar_type(), "classes");
    y = at::embedding(embedding->weight, labels.to(embedding->weight.device()));
  }
  std::map<int64_t, Tensor> maps;
  maps[4] = in_block(kSynthesis + "init.init", [&] {
    const Tensor one_pixel = pixel_norm(z.to(start->weight_orig.scalar_type()));
    return gated(start_norm->forward(in_fast_layout(
        autocast_conv_transpose2d(one_pixel.reshape({z.size(0), -1, 1, 1}), start->normalised()))));
  });
  seen("init", maps[4]);
  NoiseTaken taken{noise};
  for (int64_t r = 8; r <= shape.img_resolution; r *= 2) {
    maps[r] = blocks.at(r)->forward(maps.at(r / 2), y, taken);
    seen(fmt::format("feat_{}", r), maps[r]);
    const auto excitation = excitations.find(r);
    if (excitation == excitations.end()) continue;
    maps[r] = excitation->second->forward(maps.at(r / 16), maps.at(r));
    seen(fmt::format("se_{}", r), maps[r]);
  }
  const Tensor pictures = in_block(kSynthesis + "to_big", [&] {
    return convolved(*to_image, maps.at(shape.img_resolution))
        .to(to_image->weight_orig.scalar_type());
  });
  seen("to_big", pictures);
  return pictures;
}

void initialise(Generator& network, const std::string& player, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  initialise_spectral_weights(network, player, seed);
  if (!network.embedding) return;
  Tensor& classes = network.embedding->weight;
  classes.copy_(normal_like(classes, seed, "init/" + player + "/synthesis.embed.weight"));
}

}  // namespace gantrain::projected
