// SPDX-License-Identifier: Apache-2.0
#include "augment/wavelets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace gantrain {

namespace {

using Taps = std::vector<double>;

// Least asymmetric orthonormal wavelets of Daubechies, "Ten Lectures on Wavelets", 1992, sec. 8.1.1
// (table 8.1, with sum sqrt 2); sym2 is the four-tap one in closed form.
constexpr std::array<double, 12> kSym6 = {0.015404109327027373,
                                          0.0034907120842174702,
                                          -0.11799011114819057,
                                          -0.048311742585633,
                                          0.4910559419267466,
                                          0.787641141030194,
                                          0.3379294217276218,
                                          -0.07263752278646252,
                                          -0.021060292512300564,
                                          0.04472490177066578,
                                          0.0017677118642428036,
                                          -0.007800708325034148};

Taps sym2() {
  const double r = std::sqrt(3.0);
  const double scale = 4 * std::sqrt(2.0);
  return {(1 - r) / scale, (3 - r) / scale, (3 + r) / scale, (1 + r) / scale};
}

Taps convolve(const Taps& a, const Taps& b) {
  Taps out(a.size() + b.size() - 1);
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) out[i + j] += a[i] * b[j];
  }
  return out;
}

// Half of a filter's autocorrelation: the filter applied back and forth, which has no phase.
Taps back_and_forth(const Taps& h) {
  Taps out = convolve(h, Taps(h.rbegin(), h.rend()));
  for (double& tap : out) tap /= 2;
  return out;
}

Taps with_zeros_between(const Taps& h) {
  Taps out(2 * h.size() - 1);
  for (size_t i = 0; i < h.size(); ++i) out[2 * i] = h[i];
  return out;
}

}  // namespace

std::array<double, 12> sym6_lowpass() {
  std::array<double, 12> taps = kSym6;
  const double sum = std::accumulate(taps.begin(), taps.end(), 0.0);
  for (double& tap : taps) tap /= sum;
  return taps;
}

std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> octave_band_filters() {
  Taps h = sym2();
  const Taps low = back_and_forth(h);
  for (size_t i = 1; i < h.size(); i += 2) h[i] = -h[i];
  const Taps high = back_and_forth(h);

  // Each level halves the lower bands' frequencies and adds the octave above them.
  std::vector<Taps> bands(kOctaveBands, Taps{0});
  bands[0] = {1};
  for (size_t level = 1; level < kOctaveBands; ++level) {
    for (Taps& band : bands) band = convolve(with_zeros_between(band), low);
    const size_t first = (bands[level].size() - high.size()) / 2;
    for (size_t i = 0; i < high.size(); ++i) bands[level][first + i] += high[i];
  }

  std::array<std::array<double, kOctaveBandTaps>, kOctaveBands> out{};
  for (size_t i = 0; i < kOctaveBands; ++i)
    std::copy(bands[i].begin(), bands[i].end(), out[i].begin());
  return out;
}

}  // namespace gantrain
