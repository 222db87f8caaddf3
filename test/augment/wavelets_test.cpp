// SPDX-License-Identifier: Apache-2.0
#include "augment/wavelets.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

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
