// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/generator.h"

#include <cmath>

#include "core/forward_precision.h"
#include "core/torch.h"
#include "nn/style/styles.h"
#include "ops/upfirdn2d.h"

namespace gantrain::stylegan2 {

using at::Tensor;

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
