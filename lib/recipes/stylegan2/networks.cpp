// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/networks.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/torch.h"
#include "gan/model_json.h"
#include "nn/style/styles.h"
#include "ops/upfirdn2d/upfirdn2d.h"
#include "util/error.h"

namespace gantrain::stylegan2 {

using at::Tensor;

using Tensors = std::map<std::string, Tensor>;

namespace {

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
    fail(Exit::kInput,
         "{}: mapping.fc0.weight takes {} features, of which mapping.embed.weight gives {}",
         given.source,
         first.size(1),
         m.embedding());
  }
  return m;
}

// The lowest channel_base that gives the feature maps seen. A resolution r with c maps below the
// maximum says c r <= base < (c + 1) r.
void read_widths(StyleBlocks& s, const GeneratorTensors& given) {
  const auto maps = [&](int64_t r) { return given.get(block(r) + "conv1.weight", 4).size(0); };
  s.channel_max = 0;
  for (int64_t r = 4; r <= s.nominal(); r *= 2) s.channel_max = std::max(s.channel_max, maps(r));
  s.channel_base = 0;
  for (int64_t r = 4; r <= s.nominal(); r *= 2)
    s.channel_base = std::max(s.channel_base, maps(r) * r);
  for (int64_t r = 4; r <= s.nominal(); r *= 2) {
    if (s.channels(r) == maps(r)) continue;
    fail(Exit::kInput,
         "{}: tensor {}conv1.weight has {} feature maps; with those of the other blocks "
         "min(channel_base / {}, channel_max) would be {}",
         given.source,
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
    fail(Exit::kInput,
         "{}: tensor synthesis.b4.const has shape [{}]; the shorter side of a start has 4 to 7 "
         "pixels",
         given.source,
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
    if (a != b)
      fail(Exit::kInput, "{}: gantrain.model: {} = {}, but the tensors have {}", source, key, a, b);
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
    fail(Exit::kInput,
         "{}: gantrain.model: img_resolution = {}: allowed: sides of 4 to 7 pixels on the shorter "
         "one, times a power of two",
         source,
         to_text(s.img_resolution));
  }
  if (s.channels(s.nominal()) < 1) {
    fail(Exit::kInput,
         "{}: gantrain.model: synthesis_kwargs.channel_base = {}: at least {}, the nominal "
         "img_resolution",
         source,
         s.channel_base,
         s.nominal());
  }
  if (shape.mapping.z_dim + shape.mapping.c_dim == 0)
    fail(Exit::kInput, "{}: gantrain.model: z_dim = 0: at least 1 where c_dim is 0", source);
  return shape;
}

GeneratorShape shape_of_tensors(const Tensors& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a StyleGAN2 generator"};
  return {mapping_of(given), synthesis_of(given)};
}

GeneratorShape generator_shape(const Json& model,
                               const Tensors& tensors,
                               const std::string& source) {
  const GeneratorShape seen = shape_of_tensors(tensors, source);
  const GeneratorShape said = shape_of_model(model, source, seen);
  check_agreement(said, seen, source);
  return said;
}

namespace {
const double kRootHalf = std::sqrt(0.5);
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
    conv0 = register_module("conv0", std::make_shared<ModulatedLayer>(layer));
    layer.in = out;
    layer.up = 1;
    ++layer.layer;
  }
  conv1 = register_module("conv1", std::make_shared<ModulatedLayer>(layer));
  if (b.architecture == BlockArchitecture::kSkip || r == b.nominal()) {
    const ModulatedToRgb::Config rgb{
        .in = out, .channels = b.img_channels, .w_dim = w_dim, .clamp = b.conv_clamp};
    torgb = register_module("torgb", std::make_shared<ModulatedToRgb>(rgb));
  }
  if (b.architecture == BlockArchitecture::kResnet && r > 4) {
    const ResamplingConv2d::Config one{
        .in = b.channels(r / 2), .out = out, .kernel = 1, .bias = false, .up = 2};
    skip = register_module("skip", std::make_shared<ResamplingConv2d>(one));
  }
}

Canvas SynthesisBlock::forward(const Canvas& in,
                               const Tensor& ws,
                               const NoiseInputs& noise,
                               bool fused) {
  const BlockScope named(name);
  int64_t next = first_w;
  const auto convolve = [&](ModulatedLayer& conv, const Tensor& x, double gain) {
    return conv.forward(x, ws.select(1, next++), noise, fused, gain);
  };
  Tensor x = in.x.defined() ? in.x : constant.unsqueeze(0).expand({ws.size(0), -1, -1, -1});
  x = in_block_type(x, half, conv1->weight);
  const Tensor around = skip ? skip->forward(x, kRootHalf) : Tensor();
  if (conv0) x = convolve(*conv0, x, 1);
  x = convolve(*conv1, x, skip ? kRootHalf : 1);
  if (skip) x = around + x;

  Tensor img = in.img.defined() ? upsample2d(in.img, resample_filter) : in.img;
  if (torgb) {
    // The next block's first convolution uses this w again.
    const Tensor rgb = torgb->forward(x, ws.select(1, next), fused).to(ws.scalar_type());
    img = img.defined() ? img + rgb : rgb;
  }
  return {x, img};
}

Synthesis::Synthesis(const StyleBlocks& b, int64_t w_dim, int64_t count) : num_ws(count) {
  for (int64_t r = 4; r <= b.nominal(); r *= 2) {
    const auto block = std::make_shared<SynthesisBlock>(b, w_dim, r);
    blocks.push_back(register_module(block->name, block));
  }
}

Tensor Synthesis::forward(const Tensor& ws,
                          const NoiseInputs& noise,
                          bool fused,
                          const Tensor& start) {
  TORCH_CHECK(
      ws.dim() == 3 && ws.size(1) == num_ws, "ws ", ws.sizes(), ": [N, ", num_ws, ", w_dim]");
  const Tensor w = ws.to(blocks.front()->constant.scalar_type());
  Canvas canvas;
  if (start.defined()) canvas.x = start.unsqueeze(0).expand({ws.size(0), -1, -1, -1});
  for (const auto& block : blocks) canvas = block->forward(canvas, w, noise, fused);
  return canvas.img;
}

Generator::Generator(const GeneratorShape& s) : shape(s) {
  synthesis = register_module(
      "synthesis", std::make_shared<Synthesis>(s.synthesis, s.mapping.w_dim, s.num_ws()));
  mapping = register_module("mapping", std::make_shared<StyleMapping>(s.mapping));
}

Tensor Generator::forward(const Tensor& z,
                          const Tensor& labels,
                          const NoiseInputs& noise,
                          bool fused) {
  const Tensor w = [&] {
    const BlockScope named("mapping");
    return mapping->forward(z, labels);
  }();
  const BlockScope named("synthesis");
  return synthesis->forward(for_all_layers(w, shape.num_ws()), noise, fused);
}

}  // namespace gantrain::stylegan2
