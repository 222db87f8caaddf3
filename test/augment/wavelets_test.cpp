// SPDX-License-Identifier: Apache-2.0
#include "augment/wavelets.h"

#include <cmath>
#include <numeric>

#include "augment/known_draws.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("Sym6IsOrthonormalWithSixVanishingMoments") {
  const auto h = sym6_lowpass();
  CHECK(std::accumulate(h.begin(), h.end(), 0.0) == Approx(1).epsilon(1e-14));
  for (size_t shift = 0; shift < h.size(); shift += 2) {
    double product = 0;
    for (size_t i = shift; i < h.size(); ++i) product += 2 * h[i] * h[i - shift];
    CHECK(std::abs(product - (shift == 0 ? 1 : 0)) < 1e-9);
  }
  for (int moment = 0; moment < 6; ++moment) {
    double sum = 0, size = 0;
    for (size_t i = 0; i < h.size(); ++i) {
      const double term = std::pow(static_cast<double>(i), moment) * h[i];
      sum += i % 2 == 0 ? term : -term;
      size += std::abs(term);
    }
    CAPTURE(moment);
    CHECK(std::abs(sum) < 1e-7 * size);
  }
}

TEST_CASE("TheBandsAddUpToAnImpulse") {
  const auto bands = octave_band_filters();
  for (size_t tap = 0; tap < kOctaveBandTaps; ++tap) {
    double sum = 0;
    for (const auto& band : bands) {
      sum += band[tap];
      CHECK(band[tap] == Approx(band[kOctaveBandTaps - 1 - tap]).margin(1e-15));  // no phase
    }
    CHECK(sum == Approx(tap == kOctaveBandTaps / 2 ? 1 : 0).margin(1e-14));
  }
  for (size_t band = 0; band < kOctaveBands; ++band) {  // only the lowest passes a constant
    const double constant = std::accumulate(bands[band].begin(), bands[band].end(), 0.0);
    CHECK(constant == Approx(band == 0 ? 1 : 0).margin(1e-14));
  }
}

TEST_CASE("TheFiltersMatchTheReference") {
  for (const char* name : {"ada_32_in", "ada_64_in"}) {
    const TensorFile file = fixture(name);
    const auto h = sym6_lowpass();
    CHECK(scaled_error(torch::tensor(at::ArrayRef<double>(h)), file.tensors.at("Hz_geom")) < 1e-6);
    const auto bands = octave_band_filters();
    at::Tensor bank = torch::empty({4, 43}, at::kDouble);
    for (size_t i = 0; i < kOctaveBands; ++i) {
      bank[static_cast<int64_t>(i)] = torch::tensor(at::ArrayRef<double>(bands[i]));
    }
    CHECK(scaled_error(bank, file.tensors.at("Hz_fbank")) < 1e-6);
  }
}

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

namespace {

constexpr Padding2d kMargins{.x0 = 3, .x1 = 0, .y0 = 7, .y1 = 9};

at::Tensor back_and_forth(const at::Tensor& x, FilterRoute route) {
  return sym6_halved(sym6_doubled(x, kMargins, route), route);
}

}  // namespace

TEST_CASE("MatricesAndFiltersResampleAlike") {
  const at::Tensor x = pictures(2, 3, 10, 13);
  const at::Tensor fine = sym6_doubled(x, kMargins, FilterRoute::kFilter);
  CHECK(fine.sizes() == at::IntArrayRef({2, 3, 2 * (10 + 16), 2 * (13 + 3)}));
  CHECK(difference(sym6_doubled(x, kMargins, FilterRoute::kMatrices), fine) < 1e-12);
  CHECK(difference(sym6_halved(fine, FilterRoute::kMatrices),
                   sym6_halved(fine, FilterRoute::kFilter)) < 1e-12);
}

TEST_CASE("BothRoutesHaveTheSameDerivatives") {
  std::vector<at::Tensor> gradients, seconds;
  const at::Tensor v = pictures(2, 3, 20, 10), u = pictures(2, 3, 10, 13).cos();
  for (const FilterRoute route : {FilterRoute::kFilter, FilterRoute::kMatrices}) {
    const at::Tensor x = pictures(2, 3, 10, 13).requires_grad_(true);
    const at::Tensor w = v.clone().requires_grad_(true);
    const at::Tensor y = back_and_forth(x, route);
    REQUIRE(y.sizes() == w.sizes());
    gradients.push_back(torch::autograd::grad({y}, {x}, {w}, true, true)[0]);
    seconds.push_back(torch::autograd::grad({gradients.back()}, {w}, {u})[0]);
  }
  CHECK(difference(gradients[0], gradients[1]) < 1e-12);
  CHECK(difference(seconds[0], seconds[1]) < 1e-12);
}

TEST_CASE("DoublingAndHalvingGiveTheMirroredPictureBack") {
  const at::Tensor x = torch::randn({1, 2, 10, 13}, at::kDouble);
  const at::Tensor y = back_and_forth(x, FilterRoute::kMatrices);
  const at::Tensor mirrored =
      at::reflection_pad2d(x, {kMargins.x0, kMargins.x1, kMargins.y0, kMargins.y1});
  const auto inner = [](const at::Tensor& all, int64_t crop) {
    return all.slice(2, crop, all.size(2) - crop).slice(3, crop, all.size(3) - crop);
  };
  CHECK(difference(inner(y, 3), inner(mirrored, 3 + kSym6Cropped)) < 1e-6);
}

TEST_CASE("EachSampleCanHaveItsOwnMatrices") {
  const at::Tensor x = pictures(2, 3, 4, 5).requires_grad_(true);
  const at::Tensor rows = torch::randn({2, 1, 4, 6}, at::kDouble);
  const at::Tensor columns = torch::randn({2, 1, 5, 3}, at::kDouble);
  const at::Tensor y = on_both_axes(x, rows, columns);
  const at::Tensor expected =
      at::einsum("nchw,nhy,nwx->ncyx", {x, rows.squeeze(1), columns.squeeze(1)});
  CHECK(difference(y, expected) < 1e-12);
  const at::Tensor dy = torch::randn_like(y);
  CHECK(difference(torch::autograd::grad({y}, {x}, {dy})[0],
                   torch::autograd::grad({expected}, {x}, {dy})[0]) < 1e-12);
}

TEST_CASE("MarginsKnownToTheDeviceAloneGiveTheSamePictureInALargerOne") {
  const at::Tensor x = pictures(2, 3, 10, 13);
  for (const Padding2d& m : {kMargins, Padding2d{}, Padding2d{12, 12, 9, 9}}) {
    const at::Tensor margins = torch::tensor({m.x0, m.x1, m.y0, m.y1}, at::kDouble);
    const at::Tensor within = sym6_doubled_within(x, margins);
    const at::Tensor alone = sym6_doubled(x, m, FilterRoute::kFilter);
    REQUIRE(within.sizes() == at::IntArrayRef({2, 3, 2 * 28, 2 * 37}));
    const at::Tensor around = at::constant_pad_nd(
        alone, {2 * (12 - m.x0), 2 * (12 - m.x1), 2 * (9 - m.y0), 2 * (9 - m.y1)});
    CHECK(difference(within, around) < 1e-14);
  }
}
