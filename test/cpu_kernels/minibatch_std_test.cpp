// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/minibatch_std/minibatch_std_cpu.h"
#include "ops/vector/cpu_kernels.h"

using namespace gantrain;

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
  const CpuKernelSets sets = available_cpu_kernels();
  for (int i = 0; i < sets.count; ++i) {
    for (const MinibatchStd& how : kDeviationSizes) {
      CAPTURE(sets.set[i]->name, how.g, how.groups, how.parts, how.length);
      check(sets.set[i]->minibatch_std, how);
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
