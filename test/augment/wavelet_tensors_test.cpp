// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/wavelets.h"
#include "core/torch.h"

using namespace gantrain;

TEST_CASE("FiltersAreKeptInEachType") {
  const at::Tensor exact = sym6_lowpass_like(torch::zeros({1}, at::kDouble));
  const at::Tensor rounded = sym6_lowpass_like(torch::zeros({1}, at::kFloat));
  REQUIRE(exact.sizes() == at::IntArrayRef({12}));
  for (size_t i = 0; i < 12; ++i) {
    CHECK(exact[static_cast<int64_t>(i)].item<double>() == sym6_lowpass()[i]);
  }
  CHECK(rounded.scalar_type() == at::kFloat);
  CHECK(at::equal(rounded, exact.to(at::kFloat)));
  CHECK(sym6_lowpass_like(torch::ones({2}, at::kDouble)).is_same(exact));
}

TEST_CASE("TheBankHasARowForEachBand") {
  const at::Tensor bank = octave_band_filters_like(torch::zeros({1}, at::kDouble));
  const auto bands = octave_band_filters();
  REQUIRE(bank.sizes() == at::IntArrayRef({4, 43}));
  for (int64_t band = 0; band < 4; ++band) {
    CHECK(bank[band][21].item<double>() == bands[static_cast<size_t>(band)][21]);
  }
}

TEST_CASE("FiltersFirstSeenInInferenceModeCanBeTrainedThrough") {
  at::Tensor filter;
  {
    const c10::InferenceMode inference;
    filter = sym6_lowpass_like(torch::zeros({1}, at::kHalf));
  }
  CHECK_FALSE(filter.is_inference());
}
