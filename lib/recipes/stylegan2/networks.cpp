// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/modules.h"
#include "ops/autocast.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "recipes/stylegan2/recipe.h"
#include "util/error.h"

namespace gantrain::stylegan2 {

namespace {

const double kRootHalf = std::sqrt(0.5);

std::string block(int64_t resolution) { return fmt::format("synthesis.b{}.", resolution); }

MappingShape mapping_of(const GeneratorTensors& given) {
  MappingShape m;
  m.num_layers = 0;
  int64_t width = 0;
  while (given.has(fmt::format("mapping.fc{}.weight", m.num_layers)))
    width = given.get(fmt::format("mapping.fc{}.weight", m.num_layers++), 2).size(0);
  const Tensor& first = given.get("mapping.fc0.weight", 2);
  m.w_dim = width;
  if (m.num_layers > 1) m.layer_features = first.size(0);
  m.z_dim = first.size(1);
  if (given.has("mapping.embed.weight")) {
    const Tensor& embed = given.get("mapping.embed.weight", 2);
    m.c_dim = embed.size(1);
    m.embed_features = embed.size(0);
    m.z_dim -= embed.size(0);
  }
  if (m.z_dim < 0) {
    refuse_file(given.source,
                "mapping.fc0.weight takes {} features, of which mapping.embed.weight gives {}",
                first.size(1),
                m.embedding());
  }
  return m;
}

// The lowest channel_base that gives the feature maps seen. A resolution r with c maps below the
// maximum says c r <= base < (c + 1) r.
void read_widths(StyleBlocks& s, const GeneratorTensors& given) {
  const auto maps = [&](int64_t r) { return given.get(block(r) + "conv1.weight", 4).size(0); };
  s.channel_max = s.channel_base = 0;
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    s.channel_max = std::max(s.channel_max, maps(r));
    s.channel_base = std::max(s.channel_base, maps(r) * r);
  }
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    if (s.channels(r) == maps(r)) continue;
    refuse_file(given.source,
                "tensor {}conv1.weight has {} feature maps; with those of the other blocks "
                "min(channel_base / {}, channel_max) would be {}",
                block(r),
                maps(r),
                r,
                s.channels(r));
  }
}

StyleBlocks synthesis_of(const GeneratorTensors& given) {
  StyleBlocks s;
  const Tensor& start = given.get("synthesis.b4.const", 3);
  s.img_resolution = {start.size(2), start.size(1)};
  const auto first = find_doubled_size(s.img_resolution);
  if (!first || first->doublings > 0) {
    refuse_file(given.source,
                "tensor synthesis.b4.const has shape [{}]; the shorter side of a start has 4 to 7 "
                "pixels",
                fmt::join(start.sizes(), ", "));
  }
  int64_t nominal = 4;
  while (given.has(block(2 * nominal) + "conv1.weight")) nominal *= 2;
  s.img_resolution = first->at(nominal);
  s.img_channels = given.get(block(nominal) + "torgb.weight", 4).size(0);
  // With the first block alone the three are the same network.
  const bool one = nominal == 4;
  s.architecture = one || given.has("synthesis.b4.torgb.weight") ? BlockArchitecture::kSkip
                   : given.has("synthesis.b8.skip.weight")       ? BlockArchitecture::kResnet
                                                                 : BlockArchitecture::kOrig;
  read_widths(s, given);
  return s;
}

// Sizes that both the model and the tensors give must be the same.
void check_agreement(const GeneratorShape& said,
                     const GeneratorShape& seen,
                     const std::string& source) {
  const auto agree = [&](const std::string& key, const auto& a, const auto& b) {
    if (a != b) refuse_file(source, "gantrain.model: {} = {}, but the tensors have {}", key, a, b);
  };
  const MappingShape &m = said.mapping, &n = seen.mapping;
  const StyleBlocks &s = said.synthesis, &t = seen.synthesis;
  agree("z_dim", m.z_dim, n.z_dim);
  agree("c_dim", m.c_dim, n.c_dim);
  agree("w_dim", m.w_dim, n.w_dim);
  agree("img_resolution", to_text(s.img_resolution), to_text(t.img_resolution));
  agree("img_channels", s.img_channels, t.img_channels);
  agree("mapping_kwargs.num_layers", m.num_layers, n.num_layers);
  agree("mapping_kwargs.embed_features", m.embedding(), n.embedding());
  if (m.num_layers > 1) {
    agree("mapping_kwargs.layer_features",
          m.layer_features.value_or(m.w_dim),
          n.layer_features.value_or(n.w_dim));
  }
  if (s.nominal() > 4) {
    agree("synthesis_kwargs.architecture",
          names(s.architecture)[static_cast<size_t>(s.architecture)],
          names(t.architecture)[static_cast<size_t>(t.architecture)]);
  }
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    agree(fmt::format("min(synthesis_kwargs.channel_base / {}, synthesis_kwargs.channel_max)", r),
          s.channels(r),
          t.channels(r));
  }
}

}  // namespace

int64_t GeneratorShape::num_ws() const { return layers_at(synthesis.nominal()); }

Json to_json(const GeneratorShape& shape) { return model_json("stylegan2", shape); }

GeneratorShape shape_of_model(const Json& model,
                              const std::string& source,
                              const GeneratorShape& absent) {
  GeneratorShape shape = absent;
  read_model(model, source, shape);
  const StyleBlocks& s = shape.synthesis;
  if (!find_doubled_size(s.img_resolution)) {
    refuse_file(
        source,
        "gantrain.model: img_resolution = {}: allowed: sides of 4 to 7 pixels on the shorter "
        "one, times a power of two",
        to_text(s.img_resolution));
  }
  if (s.channels(s.nominal()) < 1) {
    refuse_file(source,
                "gantrain.model: synthesis_kwargs.channel_base = {}: at least {}, the nominal "
                "img_resolution",
                s.channel_base,
                s.nominal());
  }
  if (shape.mapping.z_dim + shape.mapping.c_dim == 0)
    refuse_file(source, "gantrain.model: z_dim = 0: at least 1 where c_dim is 0");
  return shape;
}

GeneratorShape shape_of_tensors(const TensorMap& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a StyleGAN2 generator"};
  return {mapping_of(given), synthesis_of(given)};
}

GeneratorShape generator_shape(const Json& model,
                               const TensorMap& tensors,
                               const std::string& source) {
  const GeneratorShape seen = shape_of_tensors(tensors, source);
  const GeneratorShape said = shape_of_model(model, source, seen);
  check_agreement(said, seen, source);
  return said;
}

SynthesisBlock::SynthesisBlock(const StyleBlocks& b, int64_t w_dim, int64_t r)
    : name("b" + std::to_string(r)), resolution(r), first_w(0), half(b.half(r)) {
  for (int64_t side = 8; side <= r; side *= 2) first_w += side == 8 ? 1 : 2;
  const int64_t out = b.channels(r);
  const Size size = b.size_at(r);
  resample_filter =
      register_buffer("resample_filter", setup_filter(std::vector<double>{1, 3, 3, 1}));
  ModulatedLayer::Config layer{.in = out,
                               .out = out,
                               .w_dim = w_dim,
                               .resolution = size,
                               .layer = first_w,
                               .clamp = b.conv_clamp};
  if (r == 4) {
    constant = register_parameter("const", torch::zeros({out, size.height, size.width}));
  } else {
    layer.in = b.channels(r / 2);
    layer.up = 2;
    conv0 = add_child<ModulatedLayer>(*this, "conv0", layer);
    layer.in = out;
    layer.up = 1;
    ++layer.layer;
  }
  conv1 = add_child<ModulatedLayer>(*this, "conv1", layer);
  if (b.architecture == BlockArchitecture::kSkip || r == b.nominal()) {
    const ModulatedToRgb::Config rgb{
        .in = out, .channels = b.img_channels, .w_dim = w_dim, .clamp = b.conv_clamp};
    torgb = add_child<ModulatedToRgb>(*this, "torgb", rgb);
  }
  if (b.architecture == BlockArchitecture::kResnet && r > 4) {
    const ResamplingConv2d::Config one{
        .in = b.channels(r / 2), .out = out, .kernel = 1, .bias = false, .up = 2};
    skip = add_child<ResamplingConv2d>(*this, "skip", one);
  }
}

SynthesisBlock::State SynthesisBlock::forward(const State& in,
                                              const std::vector<Tensor>& ws,
                                              const NoiseInputs& noise,
                                              bool fused,
                                              const SynthesisBlock* next) {
  const BlockScope named(name);
  const auto styles_of = [&](const ModulatedLayer& conv) {
    return conv.affine->forward(ws[static_cast<size_t>(conv.config.layer)]);
  };
  StyledMaps maps = in.maps;
  if (!maps.x.defined() && !maps.scaled.defined())
    maps.x = constant.unsqueeze(0).expand({ws.front().size(0), -1, -1, -1});
  if (!maps.styles.defined()) maps.styles = styles_of(conv0 ? *conv0 : *conv1);
  for (Tensor* one : {&maps.x, &maps.scaled}) {
    if (one->defined()) *one = in_block_type(*one, half, conv1->weight);
  }
  const at::ScalarType type = convolution_type(maps.scaled.defined() ? maps.scaled : maps.x);
  const Tensor around = skip ? skip->forward(maps.x, kRootHalf) : Tensor();
  if (conv0) maps = conv0->forward(maps, noise, fused, 1, {styles_of(*conv1), type, false});
  NextConv after;
  if (next != nullptr)
    after = {styles_of(*next->conv0),
             block_type(type, next->half, next->conv1->weight),
             torgb != nullptr || next->skip != nullptr};
  if (skip) {  // the sum is what the styles multiply
    const StyledMaps alone = conv1->forward(maps, noise, fused, kRootHalf, NextConv{});
    maps = {around + alone.x, {}, after.styles};
  } else {
    maps = conv1->forward(maps, noise, fused, 1, after);
  }

  Tensor img = in.img.defined() ? upsample2d(in.img, resample_filter) : in.img;
  if (torgb) {
    // The next block's first convolution uses this w again.
    const Tensor& w = ws[static_cast<size_t>(conv1->config.layer) + 1];
    const Tensor rgb = torgb->forward(maps.x, w, fused).to(w.scalar_type());
    img = img.defined() ? img + rgb : rgb;
  }
  return {maps, img};
}

namespace {

// The w [N, w_dim] of each layer. Where gradients are recorded, they share one of ws, while that of
// each select() would be as large as ws.
std::vector<Tensor> w_of_layers(const Tensor& ws) {
  if (at::GradMode::is_enabled() && ws.requires_grad()) return ws.unbind(1);
  std::vector<Tensor> all;
  for (int64_t layer = 0; layer < ws.size(1); ++layer) all.push_back(ws.select(1, layer));
  return all;
}

}  // namespace

Synthesis::Synthesis(const StyleBlocks& b, int64_t w_dim, int64_t count) : num_ws(count) {
  for (int64_t r = 4; r <= b.nominal(); r *= 2)
    blocks.push_back(add_child<SynthesisBlock>(*this, "b" + std::to_string(r), b, w_dim, r));
}

Tensor Synthesis::forward(const Tensor& ws,
                          const NoiseInputs& noise,
                          bool fused,
                          const Tensor& start) {
  TORCH_CHECK(
      ws.dim() == 3 && ws.size(1) == num_ws, "ws ", ws.sizes(), ": [N, ", num_ws, ", w_dim]");
  const std::vector<Tensor> w = w_of_layers(ws.to(blocks.front()->constant.scalar_type()));
  SynthesisBlock::State state;
  if (start.defined()) state.maps.x = start.unsqueeze(0).expand({ws.size(0), -1, -1, -1});
  for (size_t i = 0; i < blocks.size(); ++i) {
    const SynthesisBlock* next = i + 1 < blocks.size() ? blocks[i + 1].get() : nullptr;
    state = blocks[i]->forward(state, w, noise, fused, next);
  }
  return state.img;
}

Generator::Generator(const GeneratorShape& s) : shape(s) {
  synthesis = add_child<Synthesis>(*this, "synthesis", s.synthesis, s.mapping.w_dim, s.num_ws());
  mapping = add_child<StyleMapping>(*this, "mapping", s.mapping);
}

Tensor Generator::forward(const Tensor& z,
                          const Tensor& labels,
                          const NoiseInputs& noise,
                          bool fused) {
  const Tensor w = in_block("mapping", [&] { return mapping->forward(z, labels); });
  const BlockScope named("synthesis");
  return synthesis->forward(for_all_layers(w, shape.num_ws()), noise, fused);
}

}  // namespace gantrain::stylegan2
