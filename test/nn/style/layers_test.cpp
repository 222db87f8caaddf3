// SPDX-License-Identifier: Apache-2.0
#include "nn/style/layers.h"

#include <nlohmann/json.hpp>

#include "core/device.h"
#include "core/forward_precision.h"
#include "core/tensors.h"
#include "nn/style/shape.h"
#include "ops/kernels.h"
#include "support/catch.h"
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

namespace {

// While it lives, LibTorch's meta device, whose tensors have shapes alone, stands for a GPU.
struct MetaIsAGpu {
  MetaIsAGpu() { set_counts_on_meta(true); }
  ~MetaIsAGpu() { set_counts_on_meta(false); }
};

}  // namespace

TEST_CASE("MapsThatLeaveFloat16OnAGpuBecomePlanesAndTheirGradientsChannelsLast") {
  const MetaIsAGpu gpu;
  const auto last = at::MemoryFormat::ChannelsLast;
  const auto like = at::TensorOptions().device(at::kMeta);
  const Tensor parameter = torch::empty({1}, like);
  const Tensor x = torch::empty({2, 8, 4, 4}, like.dtype(at::kHalf), last).requires_grad_();
  const Tensor y = in_block_type(x, false, parameter);
  CHECK(y.scalar_type() == at::kFloat);
  CHECK((y.is_contiguous() && !y.is_contiguous(last)));
  const Tensor g =
      torch::autograd::grad({y}, {x}, {torch::empty_like(y).requires_grad_()}, true, true).front();
  CHECK(g.scalar_type() == at::kHalf);
  CHECK(g.is_contiguous(last));
  CHECK(in_block_type(x, true, parameter).is_same(x));
  set_counts_on_meta(false);
  CHECK(in_block_type(x, false, parameter).is_contiguous(last));
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

namespace {

MappingShape small() {
  MappingShape s;
  s.z_dim = 6;
  s.w_dim = 5;
  s.num_layers = 3;
  return s;
}

}  // namespace

TEST_CASE("OnlyTheDirectionOfZCounts") {
  StyleMapping map(small());
  initialise_style_layers(map, "G", 1);
  const Tensor z = normal(Stream(1, "z"), {0, 1, 3}, {6});
  CHECK(scaled_error(map.forward(z * 100, {}), map.forward(z, {})) < 1e-5);
}

TEST_CASE("LabelsAreLookedAtWhereThereAreClasses") {
  MappingShape s = small();
  s.c_dim = 4;
  StyleMapping map(s);
  initialise_style_layers(map, "G", 1);
  const Tensor z = torch::ones({2, 6});
  const Tensor w = map.forward(z, torch::tensor({0, 3}));
  CHECK(scaled_error(w[0], w[1]) > 1e-3);
  CHECK_THROWS(map.forward(z, {}));
  CHECK_THROWS(map.forward(z, torch::tensor({0, 4})));  // there is no fifth class
  // Without z the class alone decides, as in D.
  s.z_dim = 0;
  s.has_w_avg = false;
  StyleMapping embed(s);
  initialise_style_layers(embed, "D", 1);
  CHECK(embed.forward({}, torch::tensor({0, 3})).sizes() == at::IntArrayRef({2, 5}));
  CHECK(embed.named_buffers().is_empty());
}

namespace {

struct Whose {
  uint64_t seed;
  int64_t iteration, phase;
};

NoiseInputs drawn(const Whose& whose, const Samples& samples) {
  return drawn_noise(make_draw_key(whose.seed, whose.iteration, whose.phase, at::kCPU),
                     samples,
                     at::TensorOptions(at::kDouble));
}

}  // namespace

TEST_CASE("NoiseDependsOnLayerAndGlobalSampleNotOnTheBatch") {
  const NoiseInputs whole = drawn({3, 7, 1}, {0, 1, 4}), second_rank = drawn({3, 7, 1}, {1, 2, 2});
  const at::Tensor x = whole(2, {8, 8});
  CHECK(x.sizes() == at::IntArrayRef({4, 1, 8, 8}));
  CHECK(x.scalar_type() == at::kDouble);
  CHECK(torch::equal(second_rank(2, {8, 8})[0], x[1]));
  CHECK(torch::equal(second_rank(2, {8, 8})[1], x[3]));
  CHECK_FALSE(torch::equal(whole(3, {8, 8}), x));
  for (const Whose& other : {Whose{4, 7, 1}, Whose{3, 8, 1}, Whose{3, 7, 0}})
    CHECK_FALSE(torch::equal(drawn(other, {0, 1, 4})(2, {8, 8}), x));
}

// The streams are part of what a resumed run goes on with.
TEST_CASE("NoiseIsThatOfItsLayersStream") {
  const Samples samples{1, 2, 3};
  const at::Tensor expected = normal(Stream(3, "noise/2", 7, 1), samples, {1, 4, 4});
  CHECK(torch::equal(drawn({3, 7, 1}, samples)(2, {4, 4}), expected.to(at::kDouble)));
}

TEST_CASE("NoNoiseIsUndefinedAndStoredNoiseIsTheNetworks") {
  CHECK_FALSE(no_noise()(0, {4, 4}).defined());
  CHECK_FALSE(stored_noise());
}

namespace {

// The cut of style mixing as a recipe has it.
at::Tensor cut(int64_t layer) { return torch::tensor(layer, at::kLong); }

}  // namespace

TEST_CASE("EachDoublingHasTwoLayers") {
  CHECK(layers_at(4) == 2);
  CHECK(layers_at(8) == 4);
  CHECK(layers_at(1024) == 18);
}

TEST_CASE("AllLayersHaveTheSameW") {
  const at::Tensor w = torch::randn({2, 3});
  const at::Tensor ws = for_all_layers(w, 4);
  CHECK(ws.sizes() == at::IntArrayRef({2, 4, 3}));
  for (int64_t i = 0; i < 4; ++i) CHECK(torch::equal(ws.select(1, i), w));
}

TEST_CASE("TruncationMovesTheFirstLayersTowardsTheAverage") {
  const at::Tensor ws = torch::randn({2, 6, 3}), average = torch::randn({3});
  CHECK(torch::equal(truncated(ws, average, 1, 3), ws));
  CHECK(torch::allclose(truncated(ws, average, 0, std::nullopt), average.expand_as(ws)));
  const at::Tensor half = truncated(ws, average, 0.5, 2);
  CHECK(torch::allclose(half.narrow(1, 0, 2), (ws.narrow(1, 0, 2) + average) / 2));
  CHECK(torch::equal(half.narrow(1, 2, 4), ws.narrow(1, 2, 4)));
  CHECK(torch::equal(truncated(ws, average, 0.5, 0), ws));
  CHECK(torch::equal(truncated(ws, average, 0.5, 99), truncated(ws, average, 0.5, std::nullopt)));
  const at::Tensor beyond = truncated(ws, average, -0.5, 1);
  CHECK(torch::allclose(beyond.select(1, 0), average * 1.5 - ws.select(1, 0) * 0.5));
}

TEST_CASE("MixingTakesTheLaterLayersFromTheOther") {
  const at::Tensor a = torch::zeros({2, 4, 3}), b = torch::ones({2, 4, 3});
  CHECK(mix_styles(a, b, cut(1))[0].select(1, 0).equal(torch::tensor({0.f, 1.f, 1.f, 1.f})));
  CHECK(torch::equal(mix_styles(a, b, cut(4)), a));
  CHECK(torch::equal(mix_styles(a, b, cut(0)), b));
  const at::Tensor w = torch::randn({2, 3}), other = torch::randn({2, 3});
  for (const int64_t layer : {0, 1, 3, 4})
    CHECK(torch::equal(mix_styles(w, other, cut(layer), 4),
                       mix_styles(for_all_layers(w, 4), for_all_layers(other, 4), cut(layer))));
}

TEST_CASE("MixingWithoutReadingTheCutGivesTheSameStylesAndGradients") {
  const auto mixed = [](int64_t layer, bool of_w) {
    const at::Tensor w = torch::linspace(-1, 1, 6).reshape({2, 3}).requires_grad_(true);
    const at::Tensor other = torch::linspace(2, 3, 6).reshape({2, 3}).requires_grad_(true);
    const at::Tensor ws =
        of_w ? mix_styles(w, other, cut(layer), 4)
             : mix_styles(for_all_layers(w, 4), for_all_layers(other, 4), cut(layer));
    const at::Tensor dy = torch::arange(24, at::kFloat).reshape({2, 4, 3});
    const auto grads = torch::autograd::grad({ws}, {w, other}, {dy});
    return std::vector<at::Tensor>{ws.detach(), grads[0], grads[1]};
  };
  for (const bool of_w : {false, true}) {
    for (const int64_t layer : {0, 1, 3, 4}) {
      CAPTURE(of_w, layer);
      const std::vector<at::Tensor> read = mixed(layer, of_w);
      const AssumeReadsWait as_on_a_gpu;
      const std::vector<at::Tensor> unread = mixed(layer, of_w);
      for (size_t i = 0; i < read.size(); ++i) CHECK(torch::equal(read[i], unread[i]));
    }
  }
}

TEST_CASE("WhetherMixingDoesNothingIsKnownOnlyWhereReadsAreFree") {
  CHECK(known_not_to_mix(cut(4), 4));
  CHECK_FALSE(known_not_to_mix(cut(3), 4));
  const AssumeReadsWait as_on_a_gpu;
  CHECK_FALSE(known_not_to_mix(cut(4), 4));
}

TEST_CASE("TheAverageOfWFollowsItsMean") {
  at::Tensor average = torch::zeros({3});
  const at::Tensor mean = torch::tensor({1.f, 2.f, 3.f}).requires_grad_(true);
  move_w_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean / 4));
  for (int i = 0; i < 60; ++i) move_w_average_(average, mean, 0.75);
  CHECK(torch::allclose(average, mean.detach()));
  CHECK_FALSE(average.requires_grad());
}

TEST_CASE("SharesOfMicroBatchesAddUpToTheMeanOfTheBatch") {
  const at::Tensor w = torch::randn({6, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor sum = sum_of_w(w.slice(0, 0, 6, 2)) + sum_of_w(w.slice(0, 1, 6, 2));
  CHECK_FALSE(sum.requires_grad());
  CHECK(scaled_error(mean_of_w(sum), w.detach().mean(0)) < 1e-12);
}
