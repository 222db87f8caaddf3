// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>

#include "computed_text.h"

using namespace gantrain;

namespace {

at::ScalarType product_type() {
  return at::matmul(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type();
}

}  // namespace

TEST_CASE("AForwardPassIsLoweredWhileItLives") {
  const ForwardPrecision half{at::kBFloat16, {}};
  CHECK_FALSE(autocast_is_on());
  {
    const AutocastScope lowered(half, at::kCPU);
    CHECK(autocast_is_on());
    CHECK(product_type() == at::kBFloat16);
    CHECK_FALSE(in_float32());
    {
      const AutocastDisabled exact("a reason");
      CHECK(product_type() == at::kFloat);
      CHECK(in_float32());
      CHECK_FALSE(autocast_is_on());
    }
    CHECK(product_type() == at::kBFloat16);
    CHECK_THROWS(AutocastScope(half, at::kCPU));
  }
  CHECK_FALSE(autocast_is_on());
  CHECK(product_type() == at::kFloat);
}

TEST_CASE("ALoweredWeightIsForgottenAfterTheForwardPass") {
  const ForwardPrecision half{at::kBFloat16, {}};
  at::Tensor weight = torch::ones({1, 1}).requires_grad_(true);
  const auto product = [&] {
    const AutocastScope lowered(half, at::kCPU);
    return at::matmul(torch::ones({1, 1}), weight).item<float>();
  };
  CHECK(product() == 1);
  {
    const torch::NoGradGuard no_grad;
    weight.fill_(2);
  }
  CHECK(product() == 2);
}

TEST_CASE("WithoutLoweringAForwardPassIsAsItWas") {
  const ForwardPrecision none;
  const AutocastScope same(none, at::kCPU);
  CHECK(product_type() == at::kFloat);
  CHECK_FALSE(autocast_is_on());
}

TEST_CASE("AnErrorInAForwardPassLeavesNothingBehind") {
  const ForwardPrecision half{at::kHalf, {}};
  const auto fails = [&] {
    const AutocastScope lowered(half, at::kCPU);
    const BlockScope G("G");
    const AutocastDisabled exact("a reason");
    throw std::runtime_error("stop");
  };
  CHECK_THROWS(fails());
  CHECK_FALSE(autocast_is_on());
  CHECK_FALSE(in_float32());
  std::vector<Computed> seen;
  const AutocastScope again(half, at::kCPU, &seen);
  note_computed(at::kFloat);
  CHECK(seen == std::vector<Computed>{{"", at::kFloat, ""}});
}

TEST_CASE("ABlockNotesOnceWhatItComputesInAndWhy") {
  const ForwardPrecision half{at::kBFloat16, {}};
  std::vector<Computed> seen;
  const AutocastScope lowered(half, at::kCPU, &seen);
  for (int i = 0; i < 2; ++i) {
    const BlockScope D("D");
    {
      const BlockScope unnamed("");
      const BlockScope block("b16");
      note_computed(at::kBFloat16);
      note_computed(at::kBFloat16);
    }
    const BlockScope block("b4");
    const AutocastDisabled exact("scores"), within("another"), no_island("none", false);
    note_computed(at::kFloat);
  }
  CHECK(seen ==
        std::vector<Computed>{{"D.b16", at::kBFloat16, ""}, {"D.b4", at::kFloat, "scores"}});
}

TEST_CASE("WhatIsKeptInFloat32IsSoWithAllThatIsInsideIt") {
  const ForwardPrecision half{at::kBFloat16, {"G.synthesis", "D.b4"}};
  const AutocastScope lowered(half, at::kCPU);
  const auto type_in = [](const char* network, const char* block) {
    const BlockScope outer(network);
    const BlockScope inner(block);
    return product_type();
  };
  CHECK(type_in("G.synthesis", "b16") == at::kFloat);
  CHECK(type_in("G", "synthesis") == at::kFloat);
  CHECK(type_in("G", "mapping") == at::kBFloat16);
  CHECK(type_in("D", "b4") == at::kFloat);
  CHECK(type_in("D", "b40") == at::kBFloat16);
}
