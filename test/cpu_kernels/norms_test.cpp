// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/norms/norms_cpu.h"
#include "ops/vector/cpu_kernels.h"

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
  const CpuKernelSets sets = available_cpu_kernels();
  for (int i = 0; i < sets.count; ++i) {
    for (const NormSizes& s : kNormSizes) {
      CAPTURE(sets.set[i]->name, s.n, s.channels, s.pixels);
      check(sets.set[i]->norms, s, NormMaps{s.channels, s.pixels, 1e-8f});
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
