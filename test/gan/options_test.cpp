// SPDX-License-Identifier: Apache-2.0
#include "gan/options.h"

#include "config/config.h"
#include "gan/recipe_facts.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Both {
  PlayerOptions G, D;
};
template <class Field>
void fields(Both& o, Field&& field) {
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

}  // namespace

// The schedules of the official R3GAN presets: cosines over the first burn-in images.
TEST_CASE("CosineRampsAreTheReferences") {
  CoveredFixture f("r3gan_schedules");
  for (const std::string preset : {"CIFAR10", "FFHQ-256", "ImageNet-64"}) {
    const Tensor images = f[preset + "/nimg"];
    const auto burn_in = static_cast<int64_t>(images[6].item<double>());
    for (const std::string name : {"lr", "beta2", "gamma", "ema", "aug"}) {
      CAPTURE(preset, name);
      const Tensor expected = f[preset + "/" + name];
      const Scheduled ramp(expected[0].item<double>(),
                           expected[-1].item<double>(),
                           Kimg{burn_in},
                           RampShape::kCosine);
      Tensor actual = torch::empty_like(expected);
      for (int64_t i = 0; i < images.size(0); ++i)
        actual[i] = ramp.at(static_cast<int64_t>(images[i].item<double>()));
      CHECK(scaled_error(actual, expected) < 1e-12);
    }
  }
  CHECK(f.unused().empty());
}

TEST_CASE("RatesAndMomentsOfAPlayerMayBeRamps") {
  Schema schema;
  add_keys<Both>(schema);
  Config config(schema);
  for (const char* key : {"G.adam.lr", "G.adam.beta1", "G.adam.beta2", "G.sgd.lr", "D.rmsprop.lr"})
    config.set(key, R"({"from": 0.9, "to": 0.5, "kimg": 1})", "test");
  const auto both = config.read<Both>();
  for (const Scheduled& moved :
       {both.G.adam.lr, both.G.adam.beta1, both.G.adam.beta2, both.G.sgd.lr, both.D.rmsprop.lr}) {
    CHECK(moved.at(500) == Approx(0.7));
    CHECK(moved.at(1000) == 0.5);
  }
  CHECK(both.D.adam.lr == 2e-4);
}

namespace {

PrecisionOptions with(Amp amp, PrecisionMode mode = PrecisionMode::kAutocast) {
  PrecisionOptions o;
  o.amp = amp;
  o.mode = mode;
  return o;
}

int exit_of(const PrecisionOptions& options, bool has_blocks, bool float64 = false) {
  const RecipeFacts recipe{.name = "some recipe", .has_blocks = has_blocks};
  try {
    check_options(options, recipe, float64);
  } catch (const UserError& e) {
    return static_cast<int>(e.code());
  }
  return 0;
}

}  // namespace

TEST_CASE("AutoIsHalfOnAGpuAndBfloat16OnACpu") {
  CHECK(compute_type(with(Amp::kOff), true) == ComputeType::kFloat32);
  CHECK(compute_type(with(Amp::kAuto), true) == ComputeType::kFloat16);
  CHECK(compute_type(with(Amp::kAuto), false) == ComputeType::kBfloat16);
  CHECK(compute_type(with(Amp::kAuto, PrecisionMode::kBlocks), false) == ComputeType::kFloat16);
  CHECK(chooses_by_product(with(Amp::kAuto), /*on_gpu=*/false));
  CHECK_FALSE(chooses_by_product(with(Amp::kAuto), /*on_gpu=*/true));
  CHECK_FALSE(chooses_by_product(with(Amp::kAuto, PrecisionMode::kBlocks), /*on_gpu=*/false));
  CHECK_FALSE(chooses_by_product(with(Amp::kBf16), /*on_gpu=*/false));
  for (const bool on_gpu : {false, true}) {
    CHECK(compute_type(with(Amp::kFp16), on_gpu) == ComputeType::kFloat16);
    CHECK(compute_type(with(Amp::kBf16), on_gpu) == ComputeType::kBfloat16);
  }
}

TEST_CASE("WhatCannotBeLoweredIsAnErrorOfUsage") {
  CHECK(exit_of(with(Amp::kOff), false) == 0);
  CHECK(exit_of(with(Amp::kBf16), false) == 0);
  CHECK(exit_of(with(Amp::kFp16, PrecisionMode::kBlocks), true) == 0);
  CHECK(exit_of(with(Amp::kFp16, PrecisionMode::kBlocks), false) == 2);
  CHECK(exit_of(with(Amp::kBf16, PrecisionMode::kBlocks), true) == 2);
  CHECK(exit_of(with(Amp::kOff, PrecisionMode::kBlocks), true) == 2);
  CHECK(exit_of(with(Amp::kBf16), false, /*float64=*/true) == 2);
  CHECK(exit_of(with(Amp::kOff), false, /*float64=*/true) == 0);
}

TEST_CASE("ADynamicLossScaleBeginsAboveItsFloor") {
  PrecisionOptions low = with(Amp::kFp16);
  low.initial_scale = 0.5;
  CHECK(exit_of(low, false) == 2);
  low.min_scale = 0.5;
  CHECK(exit_of(low, false) == 0);
  PrecisionOptions fixed = with(Amp::kFp16);
  fixed.initial_scale = 0.5;
  fixed.loss_scale = {LossScale::Kind::kFixed, 512};
  CHECK(exit_of(fixed, false) == 0);
}

TEST_CASE("ALossScaleIsAWordOrANumber") {
  using Scale = Value<LossScale>;
  CHECK(Scale::from_text("dynamic")->kind == LossScale::Kind::kDynamic);
  CHECK(Scale::from_text("auto")->kind == LossScale::Kind::kAuto);
  CHECK(Scale::from_text("512")->fixed == 512);
  for (const char* wrong : {"0", "-1", "inf", "nan", "big", ""})
    CHECK_FALSE(Scale::from_text(wrong));
  for (const char* text : {"auto", "dynamic", "512"})
    CHECK(text_of(Scale::to_json(*Scale::from_text(text))) == text);
}

TEST_CASE("TheScaleMovesUnderAutocastUnlessAskedOtherwise") {
  PrecisionOptions o = with(Amp::kFp16);
  CHECK(scales_dynamically(o));
  o.mode = PrecisionMode::kBlocks;
  CHECK_FALSE(scales_dynamically(o));
  o.loss_scale.kind = LossScale::Kind::kDynamic;
  CHECK(scales_dynamically(o));
  o.loss_scale = {LossScale::Kind::kFixed, 512};
  CHECK_FALSE(scales_dynamically(o));
}
