// SPDX-License-Identifier: Apache-2.0
#include "nn/progressive.h"

#include <ATen/core/Tensor.h>

#include "core/tensors.h"
#include "ops/kernels.h"
#include "ops/losses.h"
#include "ops/norms/norms.h"
#include "ops/resample.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "support/float32_checks.h"
#include "support/official_names.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("FeatureMapsAreThePapers") {  // Karras et al. 2018a, table 2
  const FeatureMaps maps;
  for (const auto& [pixels, expected] :
       {std::pair(4, 512), {32, 512}, {64, 256}, {128, 128}, {256, 64}, {512, 32}, {1024, 16}})
    CHECK(maps.at_pixels(pixels) == expected);
  CHECK(maps.at_stage(0) == 512);
  CHECK(FeatureMaps{100, 1, 24}.at_stage(3) == 12);  // rounded down
  CHECK(FeatureMaps{64, 0.5, 512}.at_stage(2) == 32);
  CHECK(FeatureMaps{4, 1, 8}.at_stage(9) == 1);  // never none
}

TEST_CASE("NamesAreTheOfficialOnes") {
  CHECK(block_name(128) == "128x128");
  CHECK(rgb_name("ToRGB", 1024, 1024) == "ToRGB_lod0");
  CHECK(rgb_name("FromRGB", 1024, 4) == "FromRGB_lod8");
  CHECK(doublings(4) == 0);
  CHECK(doublings(1024) == 8);
}

TEST_CASE("ANameMeansTheSameLevelInANetworkOfAnotherSize") {
  const auto file = [](int64_t pixels) {
    std::map<std::string, at::Tensor> tensors = {{"mapping.Dense0.weight", at::Tensor()}};
    for (int64_t side = 4; side <= pixels; side *= 2)
      tensors["D." + block_name(side) + ".Conv0.weight"] = at::Tensor();
    return tensors;
  };
  const auto larger = level_names_in(file(64), 16), smaller = level_names_in(file(8), 16);
  CHECK(larger("ToRGB_lod2.weight") == "ToRGB_lod4.weight");
  CHECK(larger("synthesis.ToRGB_lod0.bias") == "synthesis.ToRGB_lod2.bias");
  CHECK(smaller("FromRGB_lod1.weight") == "FromRGB_lod0.weight");
  CHECK(smaller("FromRGB_lod0.weight").empty());  // it has no such level
  for (const std::string same : {"16x16.Conv1.bias", "mapping.Dense0.weight", "synthesis.noise3"}) {
    CHECK(larger(same) == same);
    CHECK(smaller(same) == same);
  }
  // Its own size, and a file of no network that grows.
  for (const auto& tensors : {file(16), file(0)})
    CHECK(level_names_in(tensors, 16)("ToRGB_lod0.weight") == "ToRGB_lod0.weight");
}

TEST_CASE("BlocksUpToTheLevelTakePartAndTheConvolutionsToRgbOfTheLevel") {
  CHECK(is_active("4x4.Conv.weight", 64, 16, false));
  CHECK(is_active("16x16.Conv1.bias", 64, 16, false));
  CHECK_FALSE(is_active("32x32.Conv1.bias", 64, 16, true));
  CHECK(is_active("ToRGB_lod2.weight", 64, 16, false));
  CHECK_FALSE(is_active("ToRGB_lod3.weight", 64, 16, false));
  CHECK(is_active("ToRGB_lod3.weight", 64, 16, true));
  CHECK_FALSE(is_active("FromRGB_lod1.weight", 64, 16, true));
  CHECK_THROWS(is_active("mapping.Dense0.weight", 64, 16, false));
}

TEST_CASE("OnlyLevelsOfTheNetworkAreTaken") {
  CHECK_NOTHROW(check_level({64, 0}, 64));
  for (const StageLevel& level :
       {StageLevel{128}, StageLevel{2}, StageLevel{0}, StageLevel{12}, StageLevel{-4}})
    CHECK_THROWS(check_level(level, 64));
  CHECK_THROWS(check_level({8, -0.1}, 64));
  CHECK_THROWS(check_level({8, 1.1}, 64));
  CHECK_FALSE(StageLevel{4, 0.5}.fading());  // nothing is below
  CHECK(StageLevel{8, 0}.fading());
  CHECK_FALSE(StageLevel{8, 1}.fading());
}

namespace {

DiscriminatorShape tiny(int64_t resolution) {
  DiscriminatorShape shape;
  shape.resolution = resolution;
  shape.maps = {32, 1, 8};
  return shape;
}

std::shared_ptr<ProgressiveDiscriminator> made(const DiscriminatorShape& shape) {
  auto D = std::make_shared<ProgressiveDiscriminator>(shape);
  initialise_equalised(*D, "D", 5);
  D->to(at::kDouble);
  return D;
}

at::Tensor pictures(int64_t pixels, int64_t channels = 3) {
  return torch::randn({4, channels, pixels, pixels}, at::kDouble);
}

}  // namespace

TEST_CASE("EveryLevelGivesOneScoreForEachPicture") {
  for (const int64_t resolution : {4, 8, 32, 64}) {
    for (const int64_t channels : {1, 4}) {
      DiscriminatorShape shape = tiny(resolution);
      shape.num_channels = channels;
      shape.blur = channels == 4;
      shape.fused_scale = channels == 1;
      const auto D = made(shape);
      for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) {
        const at::Tensor scores = D->forward(pictures(pixels, channels), {pixels, 0.5});
        CHECK(scores.sizes() == at::IntArrayRef({4}));
        CHECK(torch::isfinite(scores).all().item<bool>());
      }
    }
  }
}

TEST_CASE("AnInvisibleLevelIsTheOneBelow") {
  const auto D = made(tiny(32));
  for (const int64_t pixels : {8, 32}) {
    const at::Tensor x = pictures(pixels);
    CHECK(torch::allclose(D->forward(x, {pixels, 0}), D->forward(box_down(x), {pixels / 2, 1})));
    CHECK_FALSE(torch::allclose(D->forward(x, {pixels, 0}), D->forward(x, {pixels, 1})));
  }
}

TEST_CASE("WhatTakesPartIsWhatGetsAGradientOfScoresAndPenalty") {
  for (const bool blurred : {false, true}) {
    DiscriminatorShape shape = tiny(16);
    shape.blur = blurred;
    const auto D = made(shape);
    for (const StageLevel& level : {StageLevel{4},
                                    StageLevel{8, 0},
                                    StageLevel{8, 0.4},
                                    StageLevel{8},
                                    StageLevel{16, 0.4},
                                    StageLevel{16}}) {
      D->zero_grad(/*set_to_none=*/true);
      const InputGradients s = input_gradients(
          [&](const at::Tensor& x) { return D->forward(x, level); }, pictures(level.pixels));
      (s.scores.mean() + s.squared_norms.mean()).backward();
      for (const auto& item : D->named_parameters()) {
        CAPTURE(item.key(), level.pixels, level.alpha.host());
        CHECK(item.value().grad().defined() == D->active(item.key(), level.pixels, level.fading()));
        if (item.value().grad().defined())
          CHECK(torch::isfinite(item.value().grad()).all().item<bool>());
      }
    }
  }
}

TEST_CASE("AClassHasAScoreOfItsOwn") {
  DiscriminatorShape shape = tiny(8);
  shape.label_size = 3;
  const auto D = made(shape);
  const at::Tensor x = pictures(8);
  const auto scores = [&](int64_t label) {
    return D->forward(x, {8}, torch::full({4}, label, at::kLong));
  };
  CHECK_FALSE(torch::allclose(scores(0), scores(2)));
  const at::Tensor labels = torch::tensor({0, 2, 2, 0});
  const at::Tensor both = D->forward(x, {8}, labels);
  CHECK(torch::allclose(both, torch::where(labels == 0, scores(0), scores(2))));
  CHECK_THROWS_WITH(D->forward(x, {8}), Catch::Contains("labels"));
}

TEST_CASE("ABatchThatIsNoMultipleOfTheGroupIsScoredInSmallerGroups") {
  DiscriminatorShape shape = tiny(8);
  const at::Tensor x = torch::randn({10, 3, 8, 8}, at::kDouble);
  const at::Tensor scores = made(shape)->forward(x, {8});
  for (const int64_t group : {2, 3, 10}) {
    CAPTURE(group);
    shape.mbstd_group_size = group;
    CHECK(torch::equal(made(shape)->forward(x, {8}), scores) == (group < 4));
  }
}

TEST_CASE("PicturesOfAnotherLevelAreRefused") {
  const auto D = made(tiny(16));
  CHECK_THROWS_WITH(D->forward(pictures(8), {16}), Catch::Contains("16"));
  CHECK_THROWS_WITH(D->forward(pictures(8), {32}), Catch::Contains("32"));
}

namespace {

// One layer of fixtures/pg_sg1_ops: its inputs in our layouts, and its gradients in the official.
class Layer {
 public:
  Layer(CoveredFixture& reference, const std::string& name) : reference_(reference), name_(name) {}

  at::Tensor input(const std::string& key, TfLayout layout = TfLayout::kSame) {
    inputs_.push_back(
        {key,
         layout,
         from_tensorflow(reference_[name_ + "/" + key], layout).clone().requires_grad_(true)});
    return inputs_.back().value;
  }
  // A weight that is scaled where it is used.
  at::Tensor weight(TfLayout layout, double gain, const char* key = "var/weight", double lr = 1) {
    const at::Tensor w = input(key, layout);
    Equalised layer({w.sizes().vec(), 0, gain, lr});
    layer.weight = w;
    return layer.w();
  }
  void check(const at::Tensor& y) {
    CAPTURE(name_);
    CHECK(scaled_error(y.detach(), reference_[name_ + "/y"]) < 1e-5);
    std::vector<at::Tensor> leaves;
    for (const Input& input : inputs_) leaves.push_back(input.value);
    const auto gradients = torch::autograd::grad({(y * reference_[name_ + "/dy"]).sum()}, leaves);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      CAPTURE(inputs_[i].key);
      CHECK(scaled_error(to_tensorflow(gradients[i], inputs_[i].layout),
                         reference_[name_ + "/d_" + inputs_[i].key]) < 1e-5);
    }
  }

 private:
  struct Input {
    std::string key;
    TfLayout layout;
    at::Tensor value;
  };
  CoveredFixture& reference_;
  std::string name_;
  std::vector<Input> inputs_;
};

void check_resampling(CoveredFixture& reference) {
  for (const auto& [name, layout] : {std::pair("pg_up_fused", TfLayout::kTransposedConv),
                                     std::pair("pg_up_unfused", TfLayout::kConv),
                                     std::pair("sg_up_fused", TfLayout::kMirroredConv),
                                     std::pair("sg_up_unfused", TfLayout::kConv)}) {
    Layer layer(reference, name);
    layer.check(conv2d_up(layer.input("x"), layer.weight(layout, kHeGain)));
  }
  for (const char* name :
       {"pg_down_fused", "pg_down_unfused", "sg_down_fused", "sg_down_unfused"}) {
    Layer layer(reference, name);
    layer.check(conv2d_down(layer.input("x"), layer.weight(TfLayout::kConv, kHeGain)));
  }
  Layer blurred(reference, "sg_blur2d");
  blurred.check(blur(blurred.input("x")));
}

void check_normalisation(CoveredFixture& reference) {
  Layer pixels(reference, "pg_pixel_norm");
  pixels.check(pixel_norm(pixels.input("x")));
  Layer instances(reference, "sg_instance_norm");
  const at::Tensor x = instances.input("x");
  instances.check(adain(x, at::zeros({x.size(0), 2 * x.size(1)}, x.options())));
  Layer batch(reference, "pg_minibatch_stddev");
  batch.check(minibatch_std(batch.input("x"), 4));
  Layer two(reference, "sg_minibatch_stddev_nf2");
  two.check(minibatch_std(two.input("x"), 4, 2));
}

void check_dense(CoveredFixture& reference) {
  Layer plain(reference, "pg_dense_wscale");
  const at::Tensor x = plain.input("x").flatten(1);
  plain.check(torch::linear(x, plain.weight(TfLayout::kDense, 1), plain.input("var/bias")));
  Layer slow(reference, "sg_dense_lrmul");
  const at::Tensor w = slow.weight(TfLayout::kDense, kHeGain, "var/weight", 0.01);
  slow.check(lrelu(torch::matmul(slow.input("x"), w.t()), slow.input("var/bias") * 0.01));
  Layer style(reference, "sg_style_mod");
  const at::Tensor affine = style.weight(TfLayout::kDense, 1, "var/StyleMod/weight");
  const at::Tensor both = torch::linear(style.input("w"), affine, style.input("var/StyleMod/bias"));
  const auto halves = both.reshape({both.size(0), 2, -1, 1, 1}).unbind(1);
  style.check(style.input("x") * (1 + halves[0]) + halves[1]);
  Layer noise(reference, "sg_apply_noise");
  noise.check(noise.input("x") +
              noise.input("noise") * noise.input("var/Noise/weight").reshape({-1, 1, 1}));
}

}  // namespace

TEST_CASE("EveryLayerOfTheOfficialNetworksIsMatched") {
  CoveredFixture reference("pg_sg1_ops");
  check_resampling(reference);
  check_normalisation(reference);
  check_dense(reference);
  CHECK(reference.unused() == std::vector<std::string>());
}

TEST_CASE("ANewLayerKeepsTheVariance") {
  for (const double lr : {1.0, 0.01}) {
    auto layer = std::make_shared<Equalised>(dense_shape(400, 300, 1, lr));
    torch::nn::Module network;
    network.register_module("layer", layer);
    initialise_equalised(network, "G", 3);
    const at::Tensor y = dense(torch::randn({200, 400}), *layer);
    CHECK(y.std().item<double>() == Approx(1).epsilon(0.02));
    CHECK(layer->weight.std().item<double>() == Approx(1 / lr).epsilon(0.02));
  }
}

TEST_CASE("ASlowLayerStartsAsTheSameAndMovesLessForTheSameStep") {
  Equalised fast(dense_shape(8, 4)), slow(dense_shape(8, 4, kHeGain, 0.01));
  const torch::NoGradGuard no_grad;
  fast.weight.normal_();
  slow.weight.copy_(fast.weight / 0.01);
  CHECK(torch::allclose(slow.w(), fast.w()));
  const at::Tensor before_fast = fast.w().clone(), before_slow = slow.w().clone();
  for (const Equalised* layer : {&fast, &slow}) {  // as a step of Adam: the same for every weight
    layer->weight.add_(0.5);
    layer->bias.add_(0.5);
  }
  CHECK(torch::allclose((slow.w() - before_slow) / 0.01, fast.w() - before_fast, 1e-3, 1e-4));
  CHECK(torch::allclose(slow.b() / 0.01, fast.b()));
}

TEST_CASE("InitialWeightsDependOnNamesAndSeedAlone") {
  const auto digest = [](uint64_t seed, const char* player) {
    torch::nn::Module network;
    network.register_module("a", std::make_shared<Equalised>(conv_shape(2, 3, 3)));
    network.register_module("b", std::make_shared<Equalised>(conv_shape(2, 3, 3)));
    initialise_equalised(network, player, seed);
    const auto parameters = network.named_parameters();
    CHECK_FALSE(torch::equal(parameters["a.weight"], parameters["b.weight"]));
    CHECK(parameters["a.bias"].abs().max().item<float>() == 0);
    return sha256_of(state_of(network));
  };
  CHECK(digest(1, "G") == digest(1, "G"));
  CHECK(digest(1, "G") != digest(2, "G"));
  CHECK(digest(1, "G") != digest(1, "D"));
}

TEST_CASE("AConvolutionsFactorInTheActivationChangesNothing") {
  // In float64 the weight is multiplied, in float32 the convolution's result.
  for (const double lr : {1.0, 0.5}) {
    const auto f = [&](const Tensors& in) {
      Equalised layer({{4, 3, 3, 3}, 4, kHeGain, lr});
      layer.weight = in[1];
      layer.bias = in[2];
      return conv_lrelu(in[0], layer);
    };
    torch::manual_seed(9);
    const Tensors inputs = {torch::randn({2, 3, 6, 5}, at::kDouble),
                            torch::randn({4, 3, 3, 3}, at::kDouble),
                            torch::randn({4}, at::kDouble)};
    CHECK(float32_error(f, inputs, /*order=*/2) < 1e-5);
    Tensors plain;
    for (const at::Tensor& x : inputs) plain.push_back(x.to(at::kFloat));
    const at::Tensor fused = f(plain);
    const WithKernels ref(KernelSet::kRef);
    CHECK(scaled_error(fused, f(plain)) < 1e-6);
  }
}

TEST_CASE("ThereAndBackIsNothing") {
  const at::Tensor conv = torch::randn({3, 3, 5, 7});
  for (const TfLayout layout :
       {TfLayout::kSame, TfLayout::kConv, TfLayout::kMirroredConv, TfLayout::kTransposedConv})
    CHECK(torch::equal(to_tensorflow(from_tensorflow(conv, layout), layout), conv));
  const at::Tensor dense = torch::randn({5, 7});
  CHECK(torch::equal(to_tensorflow(from_tensorflow(dense, TfLayout::kDense), TfLayout::kDense),
                     dense));
}

TEST_CASE("AxesGoWhereTorchHasThem") {
  at::Tensor v = torch::zeros({3, 3, 5, 7});
  v[0][1][2][4] = 1;
  CHECK(from_tensorflow(v, TfLayout::kConv)[4][2][0][1].item<float>() == 1);
  CHECK(from_tensorflow(v, TfLayout::kMirroredConv)[4][2][2][1].item<float>() == 1);
  CHECK(from_tensorflow(v, TfLayout::kTransposedConv)[2][4][2][1].item<float>() == 1);
  CHECK(from_tensorflow(torch::zeros({5, 7}), TfLayout::kDense).sizes() == at::IntArrayRef({7, 5}));
}

TEST_CASE("NamesChangePrefixAndSeparators") {
  const LayoutOf same = [](const std::string& name, const at::Tensor&) {
    CHECK(name == "4x4/Conv/weight");
    return TfLayout::kSame;
  };
  const TensorMap variables = {{"G/4x4/Conv/weight", torch::ones({1})},
                               {"D/4x4/Conv/weight", torch::zeros({1})}};
  const TensorMap parameters = from_official(variables, "D/", "D.", same);
  REQUIRE(parameters.size() == 1);
  CHECK(parameters.at("D.4x4.Conv.weight").item<float>() == 0);
  const TensorMap back = to_official(parameters, "D.", "D/", same);
  REQUIRE(back.size() == 1);
  CHECK(back.count("D/4x4/Conv/weight") == 1);
}
