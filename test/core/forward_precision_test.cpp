// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"

#include <ATen/autocast_mode.h>

#include "core/torch.h"
#include "support/catch.h"
#include "support/computed_text.h"

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

TEST_CASE("ANameKeepsAllThatIsInIt") {
  const ForwardPrecision half{at::kBFloat16, {"G"}};
  const AutocastScope lowered(half, at::kCPU);
  const auto type_in = [](const char* outer, const char* inner) {
    const BlockScope outside(outer), within(inner);
    return product_type();
  };
  CHECK(type_in("G", "b4") == at::kFloat);
  CHECK(type_in("G.synthesis", "b4") == at::kFloat);  // which is one scope
  CHECK(type_in("D", "G") == at::kBFloat16);
  CHECK(type_in("Gate", "b4") == at::kBFloat16);
}

TEST_CASE("ProductsChooseTheirTypesWhereNothingAsksForFloat32") {
  const Product one, other{Product::Kind::kLinear};
  ForwardPrecision precision{std::nullopt, {"D"}};
  precision.choice = std::make_shared<ProductChoice>(ProductChoice{{one, true}, {other, false}});
  CHECK_FALSE(chooses_products());
  const AutocastScope pass(precision, at::kCPU);
  CHECK(chooses_products());
  CHECK(autocast_is_on());
  CHECK(product_type() == at::kFloat);  // LibTorch's autocast is not on
  CHECK(lowers_product(one, {}));
  CHECK_FALSE(lowers_product(other, {}));
  CHECK_FALSE(lowers_product({Product::Kind::kConvTranspose2d}, {}));  // not listed
  const BlockScope kept("D");
  CHECK_FALSE(chooses_products());
}

TEST_CASE("ARecordingCountsUsesByTheirWeight") {
  const Product product;
  ForwardPrecision precision;
  precision.choice = std::make_shared<ProductChoice>();
  const AutocastScope pass(precision, at::kCPU);
  ProductRecord record;
  {
    const ProductRecording counted(record, 0.5);
    lowers_product(product, {8, 1, 1, 0});
    lowers_product(product, {4, 1, 0, 1});
    CHECK_THROWS(ProductRecording(record, 1));
  }
  lowers_product(product, {8, 1, 1, 1});
  REQUIRE(record.size() == 1);
  const ProductUses& uses = record.at(product);
  CHECK(uses.samples == 8);
  CHECK(uses.forward == 1);
  CHECK(uses.input_gradient == 0.5);
  CHECK(uses.weight_gradient == 0.5);
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
