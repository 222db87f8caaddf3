// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/norms/norms_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

Numbers norm_input(int64_t count, unsigned seed) { return normal_numbers(count, seed, 0.5f, 2); }

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * b[i];
  return sum;
}

Numbers moved(const Numbers& x, const Numbers& direction, float step) {
  Numbers y = x;
  for (size_t i = 0; i < x.size(); ++i) y[i] += step * direction[i];
  return y;
}

struct NormSizes {
  int64_t n, channels, pixels;
};
const std::vector<NormSizes> kNormSizes = {{2, 3, 16}, {1, 5, 7}, {2, 2, 1300}};

// Calls check(kernels, sizes, maps) for every set of kernels and all sizes.
template <class Check>
void for_all_norm_kernels(const Check& check) {
  for (const CpuKernels* set : available_cpu_kernels()) {
    for (const NormSizes& s : kNormSizes) {
      CAPTURE(set->name, s.n, s.channels, s.pixels);
      check(set->norms, s, NormMaps{s.channels, s.pixels, 1e-8f});
    }
  }
}

int64_t bands(const NormSizes& s) { return s.n * ((s.pixels + kPixelBand - 1) / kPixelBand); }

}  // namespace

TEST_CASE("PixelNormsKernelLeavesUnitMeanSquareAndItsGradientIsItsDerivative") {
  for_all_norm_kernels([](const NormKernels& kernels, const NormSizes& s, const NormMaps& how) {
    const int64_t count = s.n * s.channels * s.pixels;
    const Numbers x = norm_input(count, 1), dout = norm_input(count, 2),
                  direction = norm_input(count, 3);
    const auto norm = [&](const Numbers& in) {
      Numbers out(in.size());
      kernels.pixel_norm(how, in.data(), out.data(), 0, bands(s));
      return out;
    };
    const Numbers y = norm(x);
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t p = 0; p < s.pixels; ++p) {
        double square = 0;
        for (int64_t c = 0; c < s.channels; ++c) {
          const float v = y[static_cast<size_t>((i * s.channels + c) * s.pixels + p)];
          square += double(v) * v;
        }
        CHECK(square / static_cast<double>(s.channels) == Approx(1).epsilon(1e-5));
      }
    }
    Numbers dx(x.size());
    kernels.pixel_norm_gradient(how, dout.data(), x.data(), dx.data(), 0, bands(s));
    // The output does not change along x itself.
    CHECK(std::abs(dot(dx, x)) < 1e-4 * static_cast<double>(count));
    constexpr float kStep = 1e-3f;
    const double difference = (dot(dout, norm(moved(x, direction, kStep))) -
                               dot(dout, norm(moved(x, direction, -kStep)))) /
                              (2 * double(kStep));
    CHECK(dot(dx, direction) == Approx(difference).epsilon(0.02).margin(0.05));
  });
}

TEST_CASE("AdainsKernelSetsMeanAndDeviationAndItsGradientIsItsDerivative") {
  for_all_norm_kernels([](const NormKernels& kernels, const NormSizes& s, const NormMaps& how) {
    const int64_t planes = s.n * s.channels, count = planes * s.pixels;
    const Numbers x = norm_input(count, 1), dout = norm_input(count, 2),
                  direction = norm_input(count, 3);
    const Numbers style = norm_input(2 * planes, 4);
    Numbers mean(static_cast<size_t>(planes)), inverse(mean.size());
    const auto norm = [&](const Numbers& in) {
      Numbers out(in.size());
      kernels.adain(
          how, {in.data(), style.data()}, {out.data(), mean.data(), inverse.data()}, 0, planes);
      return out;
    };
    const Numbers moved_up = norm(moved(x, direction, 1e-3f));
    const Numbers moved_down = norm(moved(x, direction, -1e-3f)), y = norm(x);
    Numbers dx(x.size()), dstyle(style.size());
    kernels.adain_gradient(how,
                           {x.data(), style.data()},
                           {mean.data(), inverse.data()},
                           dout.data(),
                           {dx.data(), dstyle.data()},
                           0,
                           planes);
    for (int64_t p = 0; p < planes; ++p) {
      double sum = 0, square = 0, of_shift = 0;
      for (int64_t i = p * s.pixels; i < (p + 1) * s.pixels; ++i) {
        sum += y[static_cast<size_t>(i)];
        square += double(y[static_cast<size_t>(i)]) * y[static_cast<size_t>(i)];
        of_shift += dout[static_cast<size_t>(i)];
      }
      const auto pixels = static_cast<double>(s.pixels);
      const auto scale = static_cast<size_t>(p / s.channels * 2 * s.channels + p % s.channels);
      const size_t shift = scale + static_cast<size_t>(s.channels);
      CHECK(sum / pixels == Approx(style[shift]).margin(1e-4));
      CHECK(std::sqrt(square / pixels - sum * sum / pixels / pixels) ==
            Approx(std::abs(1 + style[scale])).margin(1e-3));
      CHECK(dstyle[shift] == Approx(of_shift).margin(1e-3));
    }
    const double difference = (dot(dout, moved_up) - dot(dout, moved_down)) / 2e-3;
    CHECK(dot(dx, direction) == Approx(difference).epsilon(0.02).margin(0.2));
  });
}

namespace {

// The mean deviation of a part over a group, in float64.
double deviation(const MinibatchStd& how, const Numbers& x, int64_t m, int64_t part) {
  double total = 0;
  for (int64_t e = 0; e < how.length; ++e) {
    const auto value = [&](int64_t j) {
      return double(
          x[static_cast<size_t>(((j * how.groups + m) * how.parts + part) * how.length + e)]);
    };
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < how.g; ++j) mean += value(j) / static_cast<double>(how.g);
    for (int64_t j = 0; j < how.g; ++j)
      variance += (value(j) - mean) * (value(j) - mean) / static_cast<double>(how.g);
    total += std::sqrt(variance + double(how.eps));
  }
  return total / static_cast<double>(how.length);
}

const std::vector<MinibatchStd> kDeviationSizes = {
    {4, 2, 1, 64, 16, 1e-8f}, {3, 1, 2, 35, 7, 1e-8f}, {1, 2, 1, 9, 9, 1e-8f}};

// Calls check(kernels, sizes) for every set of kernels and all sizes.
template <class Check>
void for_all_deviation_kernels(const Check& check) {
  for (const CpuKernels* set : available_cpu_kernels()) {
    for (const MinibatchStd& how : kDeviationSizes) {
      CAPTURE(set->name, how.g, how.groups, how.parts, how.length);
      check(set->minibatch_std, how);
    }
  }
}

}  // namespace

TEST_CASE("EverySampleGetsItsGroupsDeviations") {
  for_all_deviation_kernels([](const MinibatchStdKernels& kernels, const MinibatchStd& how) {
    const int64_t samples = how.g * how.groups, width = how.parts * (how.length + how.pixels);
    const Numbers x = normal_numbers(samples * how.parts * how.length, 1);
    Numbers out(static_cast<size_t>(samples * width));
    kernels.forward(how, x.data(), out.data(), 0, how.groups * how.parts);
    for (int64_t n = 0; n < samples; ++n) {
      for (int64_t i = 0; i < how.parts * how.length; ++i)
        REQUIRE(out[static_cast<size_t>(n * width + i)] ==
                x[static_cast<size_t>(n * how.parts * how.length + i)]);
      for (int64_t i = 0; i < how.parts * how.pixels; ++i) {
        const double expected = deviation(how, x, n % how.groups, i / how.pixels);
        CHECK(out[static_cast<size_t>(n * width + how.parts * how.length + i)] ==
              Approx(expected).epsilon(1e-5));
      }
    }
  });
}

TEST_CASE("TheDeviationsGradientIsTheirDerivative") {
  for_all_deviation_kernels([](const MinibatchStdKernels& kernels, const MinibatchStd& how) {
    if (how.g == 1) return;  // a group of one has the deviation 1e-4 everywhere
    const int64_t samples = how.g * how.groups, width = how.parts * (how.length + how.pixels);
    const Numbers x = normal_numbers(samples * how.parts * how.length, 1);
    const Numbers dout = normal_numbers(samples * width, 2);
    Numbers dx(x.size());
    kernels.gradient(how, dout.data(), x.data(), dx.data(), 0, how.groups * how.parts);
    // One number of x at a time.
    for (size_t i = 0; i < x.size(); i += 11) {
      const auto in_sample = static_cast<int64_t>(i) % (how.parts * how.length);
      const int64_t n = static_cast<int64_t>(i) / (how.parts * how.length);
      const int64_t m = n % how.groups, part = in_sample / how.length;
      double maps = 0;
      for (int64_t j = 0; j < how.g; ++j) {
        for (int64_t p = 0; p < how.pixels; ++p)
          maps += dout[static_cast<size_t>((j * how.groups + m) * width + how.parts * how.length +
                                           part * how.pixels + p)];
      }
      Numbers up = x, down = x;
      constexpr float kStep = 1e-3f;
      up[i] += kStep;
      down[i] -= kStep;
      const double slope = (deviation(how, up, m, part) - deviation(how, down, m, part)) /
                           (double(up[i]) - double(down[i]));
      const double expected = dout[static_cast<size_t>(n * width + in_sample)] + maps * slope;
      CHECK(dx[i] == Approx(expected).epsilon(1e-3).margin(1e-3));
    }
  });
}
