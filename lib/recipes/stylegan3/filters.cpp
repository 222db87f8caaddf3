// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan3/filters.h"

#include <cmath>
#include <numbers>

namespace gantrain::stylegan3 {

namespace {

constexpr double kPi = std::numbers::pi;

double sinc(double x) { return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x); }

// The distance of a tap from the filter's middle, in taps.
double from_middle(int64_t tap, int64_t taps) {
  return static_cast<double>(tap) - static_cast<double>(taps - 1) / 2;
}

// I_0(beta sqrt(1 - (2j / (n - 1) - 1)^2)) / I_0(beta), j = 0 to n - 1.
std::vector<double> kaiser_window(const LowPass& filter) {
  const double beta = kaiser_beta(kaiser_attenuation(filter));
  const double half = static_cast<double>(filter.taps - 1) / 2;
  std::vector<double> window;
  for (int64_t j = 0; j < filter.taps; ++j) {
    const double at = half == 0 ? 0 : from_middle(j, filter.taps) / half;
    const double inside = std::sqrt(std::max(1 - at * at, 0.0));
    window.push_back(std::cyl_bessel_i(0.0, beta * inside) / std::cyl_bessel_i(0.0, beta));
  }
  return window;
}

void scale_to_sum_1(std::vector<double>& taps) {
  double sum = 0;
  for (const double tap : taps) sum += tap;
  for (double& tap : taps) tap /= sum;
}

}  // namespace

double kaiser_attenuation(const LowPass& f) {
  return 2.285 * static_cast<double>(f.taps - 1) * kPi * f.width / (f.rate / 2) + 7.95;
}

double kaiser_beta(double attenuation) {
  const double a = attenuation;
  if (a > 50) return 0.1102 * (a - 8.7);
  return a > 21 ? 0.5842 * std::pow(a - 21, 0.4) + 0.07886 * (a - 21) : 0;
}

std::vector<double> separable_lowpass(const LowPass& filter) {
  std::vector<double> taps = kaiser_window(filter);
  for (int64_t j = 0; j < filter.taps; ++j) {
    taps[static_cast<size_t>(j)] *=
        sinc(2 * filter.cutoff / filter.rate * from_middle(j, filter.taps));
  }
  scale_to_sum_1(taps);
  return taps;
}

// J_1(2 pi f_c r) / (pi r) is the radial filter that passes frequencies up to f_c.
std::vector<double> radial_lowpass(const LowPass& filter) {
  const std::vector<double> window = kaiser_window(filter);
  std::vector<double> taps;
  for (int64_t i = 0; i < filter.taps; ++i) {
    for (int64_t j = 0; j < filter.taps; ++j) {
      const double r =
          std::hypot(from_middle(i, filter.taps), from_middle(j, filter.taps)) / filter.rate;
      const double jinc = std::cyl_bessel_j(1.0, 2 * kPi * filter.cutoff * r) / (kPi * r);
      taps.push_back(jinc * window[static_cast<size_t>(i)] * window[static_cast<size_t>(j)]);
    }
  }
  scale_to_sum_1(taps);
  return taps;
}

}  // namespace gantrain::stylegan3
