// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "nn/progressive.h"
#include "ops/losses.h"
#include "ops/resample.h"
#include "support/tensor_checks.h"

using namespace gantrain;

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
