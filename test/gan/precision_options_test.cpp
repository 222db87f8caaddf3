// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "gan/options.h"
#include "gan/recipe_facts.h"
#include "util/error.h"

using namespace gantrain;

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
