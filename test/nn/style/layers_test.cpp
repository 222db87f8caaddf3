// SPDX-License-Identifier: Apache-2.0
#include "nn/style/layers.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/forward_precision.h"
#include "core/tensors.h"
#include "nn/style/shape.h"
#include "ops/kernels.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;
using Json = nlohmann::ordered_json;

TEST_CASE("ADenseLayerMatchesTheReference") {
  const TensorFile file = fixture("ops_layers");
  const Json cases = Json::parse(file.metadata.at("cases"));
  int compared = 0;
  for (const auto& [name, what] : cases.items()) {
    if (what["op"] != "fully_connected" || !what["bias"].get<bool>()) continue;
    CAPTURE(name);
    const auto get = [&, prefix = name + "/"](const char* key) {
      return file.tensors.at(prefix + key);
    };
    FullyConnected dense(
        {.in = 7,
         .out = 5,
         .act = what["activation"] == "lrelu" ? Activation::kLrelu : Activation::kLinear,
         .lr_multiplier = what["lr_multiplier"].get<double>()});
    {
      const torch::NoGradGuard no_grad;
      dense.weight.copy_(get("weight"));
      dense.bias.copy_(get("bias"));
    }
    const Tensor x = get("x").clone().requires_grad_();
    const Tensor y = dense.forward(x);
    CHECK(scaled_error(y, get("y")) < 1e-5);
    (y * get("dy")).sum().backward();
    CHECK(scaled_error(x.grad(), get("dx")) < 1e-5);
    CHECK(scaled_error(dense.weight.grad(), get("dweight")) < 1e-5);
    CHECK(scaled_error(dense.bias.grad(), get("dbias")) < 1e-5);
    ++compared;
  }
  CHECK(compared == 3);
}

TEST_CASE("GainAndClampScaleTogether") {
  ResamplingConv2d conv({.in = 3, .out = 4, .kernel = 3, .act = Activation::kLrelu, .clamp = 0.5});
  initialise_style_layers(conv, "D", 1);
  const Tensor x = normal(Stream(1, "x"), {0, 1, 2}, {3, 8, 8}) * 5;
  const Tensor y = conv.forward(x), half = conv.forward(x, 0.5);
  CHECK(y.abs().max().item<double>() == Approx(0.5));
  CHECK(torch::allclose(half, y * 0.5));
}

TEST_CASE("AFreshLayersOutputHasUnitScale") {
  // Equalised learning rate: N(0, 1) weights, scaled at run time.
  const Tensor x = normal(Stream(1, "x"), {0, 1, 8}, {64, 8, 8});
  ResamplingConv2d conv({.in = 64, .out = 64, .kernel = 3});
  initialise_style_layers(conv, "D", 1);
  CHECK(conv.weight.std().item<double>() == Approx(1).epsilon(0.02));
  const Tensor inner = conv.forward(x).narrow(2, 1, 6).narrow(3, 1, 6);
  CHECK(inner.std().item<double>() == Approx(1).epsilon(0.1));
  FullyConnected slow({.in = 64, .out = 64, .lr_multiplier = 0.01});
  initialise_style_layers(slow, "G", 1);
  CHECK(slow.weight.std().item<double>() == Approx(100).epsilon(0.05));
  CHECK(slow.forward(x.flatten(2).select(2, 0)).std().item<double>() == Approx(1).epsilon(0.2));
}

TEST_CASE("ResamplingLayersChangeTheSize") {
  const Tensor x = torch::ones({2, 3, 8, 8});
  for (const int64_t kernel : {1, 3}) {
    ResamplingConv2d up({.in = 3, .out = 4, .kernel = kernel, .up = 2});
    ResamplingConv2d down({.in = 3, .out = 4, .kernel = kernel, .down = 2});
    CHECK(up.forward(x).sizes() == at::IntArrayRef({2, 4, 16, 16}));
    CHECK(down.forward(x).sizes() == at::IntArrayRef({2, 4, 4, 4}));
  }
}

TEST_CASE("AFreshSynthesisLayerIsWhatThePaperSays") {
  ModulatedLayer layer({.in = 6, .out = 5, .w_dim = 4, .resolution = {8, 8}, .layer = 1, .up = 2});
  initialise_style_layers(layer, "G", 1);
  CHECK(layer.noise_strength.item<double>() == 0);
  CHECK(layer.bias.abs().max().item<double>() == 0);
  CHECK(torch::equal(layer.affine->bias.detach(), torch::ones({6})));
  CHECK(layer.noise_const.std().item<double>() == Approx(1).epsilon(0.3));
  const Tensor x = torch::ones({2, 6, 4, 4}), w = torch::zeros({2, 4});
  CHECK(layer.forward(x, w, stored_noise(), false).sizes() == at::IntArrayRef({2, 5, 8, 8}));
}

TEST_CASE("NoiseIsTheSameInEveryFeatureMap") {
  ModulatedLayer layer({.in = 3, .out = 5, .w_dim = 4, .resolution = {8, 8}, .layer = 0});
  {
    const torch::NoGradGuard no_grad;
    layer.noise_strength.fill_(2);
  }
  // Weights of 0: what is left is noise, through leaky ReLU and its gain.
  initialise_style_layers(*layer.affine, "G", 1);
  const Tensor noise = normal(Stream(1, "noise"), {0, 1, 2}, {1, 8, 8});
  const auto draw = [&](int64_t, const Size&) { return noise; };
  const Tensor y = layer.forward(torch::ones({2, 3, 8, 8}), torch::ones({2, 4}), draw, false);
  const Tensor expected = torch::leaky_relu(2 * noise, 0.2) * std::sqrt(2.0);
  CHECK(scaled_error(y, expected.expand({2, 5, 8, 8})) < 1e-6);
}

TEST_CASE("BlocksTakeHalfPrecisionFromTheTop") {
  StyleBlocks b;
  b.img_resolution = {64, 64};
  const auto halves = [&](int64_t num_fp16_res) {
    b.num_fp16_res = num_fp16_res;
    std::vector<int64_t> list;
    for (int64_t r = 4; r <= 64; r *= 2) {
      if (b.half(r)) list.push_back(r);
    }
    return list;
  };
  CHECK(halves(0).empty());
  CHECK(halves(1) == std::vector<int64_t>{64});
  CHECK(halves(4) == std::vector<int64_t>{8, 16, 32, 64});
  CHECK(halves(9) == std::vector<int64_t>{8, 16, 32, 64});
}

TEST_CASE("AHalfPrecisionBlockOfFloat32TakesHalf") {
  const Tensor x = torch::ones({1}), wide = torch::ones({1}, at::kDouble);
  CHECK(in_block_type(x, true, x).scalar_type() == at::kHalf);
  CHECK(in_block_type(x.to(at::kHalf), false, x).scalar_type() == at::kFloat);
  CHECK(in_block_type(wide, true, wide).scalar_type() == at::kDouble);
  const AutocastDisabled exact("a reason");
  CHECK(in_block_type(x.to(at::kHalf), true, x).scalar_type() == at::kFloat);
}

namespace {

// y of a layer and the derivatives of sum(y^3) by its input and parameters, then those of the sum
// of the first ones' squares, which needs second derivatives.
std::vector<Tensor> with_derivatives(torch::nn::Module& layer,
                                     const Tensor& x,
                                     const std::function<Tensor(const Tensor&)>& forward) {
  std::vector<Tensor> leaves = {x.detach().requires_grad_(true)};
  for (const Tensor& parameter : layer.parameters()) leaves.push_back(parameter);
  const Tensor y = forward(leaves[0]);
  std::vector<Tensor> all = {y.detach()};
  const auto first =
      torch::autograd::grad({y.pow(3).sum()}, leaves, {}, {}, /*create_graph=*/true, true);
  Tensor sum = torch::zeros({});
  for (const Tensor& g : first) {
    if (!g.defined()) continue;
    all.push_back(g.detach());
    sum = sum + g.square().sum();
  }
  for (const Tensor& g : torch::autograd::grad({sum}, leaves, {}, {}, false, true)) {
    if (g.defined()) all.push_back(g);
  }
  return all;
}

void check_kernels_agree(torch::nn::Module& layer,
                         const Tensor& x,
                         const std::function<Tensor(const Tensor&)>& forward) {
  initialise_style_layers(layer, "G", 3);
  {
    const torch::NoGradGuard no_grad;
    for (auto& item : layer.named_parameters()) {
      if (item.key().find("bias") != std::string::npos || item.key() == "noise_strength")
        item.value().add_(normal(Stream(4, item.key()), {0, 1, 1}, item.value().numel())
                              .reshape(item.value().sizes()));
    }
  }
  const std::vector<Tensor> fused = with_derivatives(layer, x, forward);
  const WithKernels ref(KernelSet::kRef);
  const std::vector<Tensor> composed = with_derivatives(layer, x, forward);
  REQUIRE(fused.size() == composed.size());
  for (size_t i = 0; i < fused.size(); ++i) {
    CAPTURE(i);
    CHECK(scaled_error(fused[i], composed[i]) < 2e-5);
  }
}

}  // namespace

TEST_CASE("FusedLayersAndTheirDerivativesAreTheComposedOnes") {
  const Tensor x = normal(Stream(1, "x"), {0, 1, 2}, {6, 8, 8});
  const Tensor w = normal(Stream(1, "w"), {0, 1, 2}, {4});
  for (const int64_t up : {1, 2}) {
    ModulatedLayer layer({.in = 6,
                          .out = 5,
                          .w_dim = 4,
                          .resolution = square_of(8 * up),
                          .layer = 0,
                          .up = up,
                          .clamp = 2});
    check_kernels_agree(layer, x, [&](const Tensor& in) {
      return layer.forward(in, w, stored_noise(), /*fused=*/false, 0.7);
    });
  }
  ModulatedToRgb rgb({.in = 6, .channels = 3, .w_dim = 4, .clamp = 2});
  check_kernels_agree(
      rgb, x, [&](const Tensor& in) { return rgb.forward(in, w, /*fused=*/false); });
  for (const int64_t down : {1, 2}) {
    ResamplingConv2d conv(
        {.in = 6, .out = 5, .kernel = 3, .act = Activation::kLrelu, .down = down, .clamp = 2});
    check_kernels_agree(conv, x, [&](const Tensor& in) { return conv.forward(in, 0.7); });
  }
  ResamplingConv2d skip({.in = 6, .out = 5, .kernel = 1, .bias = false, .down = 2});
  check_kernels_agree(skip, x, [&](const Tensor& in) { return skip.forward(in, 0.7); });
}
