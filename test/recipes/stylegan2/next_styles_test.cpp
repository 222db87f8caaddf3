// SPDX-License-Identifier: Apache-2.0
// Layers whose styles come in the epilogue of the layer before, as on a GPU: here with kernels of
// two steps, which a CPU has.
#include "ops/device_kernels.h"
#include "ops/losses.h"
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

int64_t calls = 0;

const ActNumbers kProduct{1, 1, 1, std::numeric_limits<double>::infinity()};

std::tuple<Tensor, Tensor> act_scaled(
    const Tensor& y, const ActTensors& t, const ActNumbers& how, const Tensor& then, bool both) {
  ++calls;
  const Tensor out = cpu_act(y, t, how);
  return {both ? out : Tensor(), cpu_act(out, {.d = then}, kProduct)};
}

ScaledActDerivatives act_scaled_gradient(const ScaledActPoint& at,
                                         const ActTensors& t,
                                         const ActNumbers& how,
                                         const Tensor& then,
                                         const ActWanted& wanted,
                                         bool wants_then) {
  ++calls;
  const Tensor out = cpu_act(at.y, t, how);
  Tensor grad = at.grad, by_then;
  if (at.grad_scaled.defined()) {
    const ActDerivatives product = cpu_act_gradient(
        {at.grad_scaled, out, {}}, {.d = then}, kProduct, {wants_then, false, false});
    by_then = product.d;
    grad = grad.defined() ? grad + product.y : product.y;
  }
  return {cpu_act_gradient({grad, at.y, out}, t, how, wanted), by_then};
}

// While it lives, the CPU has kernels for both.
class AsOnAGpu {
 public:
  AsOnAGpu() : before_(device_kernels(at::kCPU)), fused_(*before_.fused), all_(before_) {
    fused_.act_scaled = act_scaled;
    fused_.act_scaled_gradient = act_scaled_gradient;
    all_.fused = &fused_;
    set_device_kernels(at::kCPU, all_);
    calls = 0;
  }
  ~AsOnAGpu() { set_device_kernels(at::kCPU, before_); }
  AsOnAGpu(const AsOnAGpu&) = delete;
  AsOnAGpu& operator=(const AsOnAGpu&) = delete;

 private:
  const DeviceKernels& before_;
  FusedKernels fused_;
  DeviceKernels all_;
};

GeneratorShape shape_with(BlockArchitecture architecture) {
  GeneratorShape s;
  s.mapping.z_dim = 12;
  s.mapping.w_dim = 10;
  s.mapping.num_layers = 2;
  s.synthesis = small_blocks(architecture, 16, 3);
  s.synthesis.conv_clamp = 3;
  return s;
}

// The pictures, the derivatives of their squares and those of the path lengths.
std::vector<Tensor> computed_with(stylegan2::Generator& G) {
  std::vector<Tensor> parameters;
  for (const auto& item : G.synthesis->named_parameters()) parameters.push_back(item.value());
  const Tensor ws = normal(Stream(2, "ws"), {0, 1, 2}, {G.synthesis->num_ws, 10}).requires_grad_();
  std::vector<Tensor> all = {G.synthesis->forward(ws)};
  const auto derive = [&](const Tensor& sum) {
    for (const Tensor& g : torch::autograd::grad({sum}, parameters, {}, {}, false, true))
      all.push_back(g.defined() ? g : torch::zeros({1}));
  };
  const Tensor pictures = all[0];
  const Tensor y = normal(Stream(2, "y"), {0, 1, 2}, pictures.sizes().slice(1));
  const Tensor lengths = path_lengths(pictures, ws, y);
  derive(lengths.square().sum());
  derive(G.synthesis->forward(ws).square().sum());
  all[0] = pictures.detach();
  return all;
}

}  // namespace

TEST_CASE("StylesInTheEpilogueOfTheLayerBeforeChangeNoGenerator") {
  for (const auto architecture :
       {BlockArchitecture::kSkip, BlockArchitecture::kOrig, BlockArchitecture::kResnet}) {
    stylegan2::Generator G(shape_with(architecture));
    initialise_style_layers(G, "G", 1);
    {
      const torch::NoGradGuard no_grad;
      for (const auto& item : G.named_parameters())
        item.value().add_(0.1 * normal_like(item.value(), 5, item.key()));
    }
    const std::vector<Tensor> expected = computed_with(G);
    const AsOnAGpu with;
    const std::vector<Tensor> found = computed_with(G);
    // Of 5 layers, those before another one; where blocks end in a sum, those inside of blocks.
    const int64_t layers = architecture == BlockArchitecture::kResnet ? 3 : 4;
    CHECK(calls == 4 * layers);  // two forward passes, and the last backward pass of each
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CAPTURE(static_cast<int>(architecture), i);
      CHECK(scaled_error(found[i], expected[i]) < 2e-5);
    }
  }
}

TEST_CASE("AHalfBlockAfterOneOfFloat32TakesItsStylesFromThere") {
  const torch::NoGradGuard no_grad;
  GeneratorShape s = shape_with(BlockArchitecture::kSkip);
  s.synthesis.num_fp16_res = 1;
  stylegan2::Generator G(s);
  initialise_style_layers(G, "G", 1);
  const Tensor ws = normal(Stream(2, "ws"), {0, 1, 2}, {G.synthesis->num_ws, 10});
  const Tensor expected = G.synthesis->forward(ws);
  const AsOnAGpu with;
  CHECK(scaled_error(G.synthesis->forward(ws), expected) < 5e-3);
  CHECK(calls == 3);  // b4.conv1, b8.conv0 and b8.conv1: a CPU has no kernel for half types
}
