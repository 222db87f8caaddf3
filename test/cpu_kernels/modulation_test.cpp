// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu_kernels/numbers.h"
#include "ops/modulation/modulation_cpu.h"
#include "ops/vector/cpu_kernels.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

struct ActSizes {
  int64_t n, c, p;
  bool last;  // channels side by side

  int64_t numel() const { return n * c * p; }
  size_t at(int64_t i, int64_t j, int64_t k) const {
    return static_cast<size_t>(last ? (i * p + k) * c + j : (i * c + j) * p + k);
  }
  int64_t units() const { return last ? n * ((p + kPixelPart - 1) / kPixelPart) : n * c; }
  int64_t sums() const { return last ? units() * c : units(); }
  // Sums of one channel of one sample, out of a kernel's.
  double sum(const std::vector<double>& sums, int64_t i, int64_t j) const {
    if (!last) return sums[static_cast<size_t>(i * c + j)];
    const int64_t parts = units() / n;
    double total = 0;
    for (int64_t part = 0; part < parts; ++part)
      total += sums[static_cast<size_t>((i * parts + part) * c + j)];
    return total;
  }
};

// All the terms and tensors of one call.
struct Call {
  explicit Call(const ActSizes& s, float clamp)
      : y(normal_numbers(s.numel(), 1)),
        grad(normal_numbers(s.numel(), 2)),
        along_y(normal_numbers(s.numel(), 3)),
        d(normal_numbers(s.n * s.c, 4)),
        noise(normal_numbers(s.n * s.p, 5)),
        strength(normal_numbers(s.c, 6)),
        bias(normal_numbers(s.c, 7)),
        along_d(normal_numbers(s.n * s.c, 8)),
        along_strength(normal_numbers(s.c, 9)),
        along_bias(normal_numbers(s.c, 10)),
        how{s.c,
            s.p,
            0.7f,
            0.2f,
            1.4f,
            clamp,
            d.data(),
            noise.data(),
            s.p,
            strength.data(),
            1,
            bias.data()} {}

  double u(const ActSizes& s, int64_t i, int64_t j, int64_t k) const {
    const auto plane = static_cast<size_t>(i * s.c + j), channel = static_cast<size_t>(j);
    return 0.7 * d[plane] * y[s.at(i, j, k)] +
           double(strength[channel]) * noise[static_cast<size_t>(i * s.p + k)] + bias[channel];
  }
  double out(double u) const {
    const double t = 1.4 * (u > 0 ? u : 0.2 * u), most = how.clamp;
    return std::clamp(t, -most, most);
  }
  double slope(double u) const {
    return std::abs(out(u)) < double(how.clamp) ? 1.4 * (u > 0 ? 1 : 0.2) : 0;
  }

  Numbers y, grad, along_y, d, noise, strength, bias, along_d, along_strength, along_bias;
  ActPlanes how;
};

const std::vector<ActSizes> kActSizes = {{2, 3, 16, false},
                                         {1, 2, 35, false},
                                         {2, 2, 5000, false},
                                         {2, 16, 9, true},
                                         {2, 5, 300, true},
                                         {1, 530, 3, true}};

const ActKernels& kernels_of(const CpuKernels& set, const ActSizes& s) {
  return s.last ? set.modulation.channels_last : set.modulation.planes;
}

// Calls check(set, sizes, call) for every set of kernels, all sizes, with and without a clamp.
template <class Check>
void for_all_act_kernels(const Check& check) {
  for (const CpuKernels* set : available_cpu_kernels()) {
    for (const ActSizes& s : kActSizes) {
      for (const float clamp : {0.9f, std::numeric_limits<float>::infinity()}) {
        CAPTURE(set->name, s.n, s.c, s.p, s.last, clamp);
        check(kernels_of(*set, s), s, Call(s, clamp));
      }
    }
  }
}

// Calls compute(begin, end) for all units, in two unequal ranges, the second one first.
template <class Compute>
void in_two_ranges(const ActSizes& s, const Compute& compute) {
  const int64_t middle = s.units() / 3;
  compute(middle, s.units());
  compute(0, middle);
}

}  // namespace

TEST_CASE("TheEpiloguesOutputIsItsFormula") {
  for_all_act_kernels([](const ActKernels& kernels, const ActSizes& s, const Call& call) {
    Numbers out(call.y.size());
    in_two_ranges(s, [&](int64_t begin, int64_t end) {
      kernels.act(call.how, call.y.data(), out.data(), begin, end);
    });
    double worst = 0;
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t j = 0; j < s.c; ++j) {
        for (int64_t k = 0; k < s.p; ++k)
          worst = std::max(worst, std::abs(out[s.at(i, j, k)] - call.out(call.u(s, i, j, k))));
      }
    }
    CHECK(worst < 1e-5);
  });
}

TEST_CASE("TheEpiloguesGradientIsItsDerivative") {
  for_all_act_kernels([](const ActKernels& kernels, const ActSizes& s, const Call& call) {
    Numbers out(call.y.size()), dy(call.y.size());
    kernels.act(call.how, call.y.data(), out.data(), 0, s.units());
    const auto count = static_cast<size_t>(s.sums());
    std::vector<double> sum_y(count), sum_noise(count), sum(count);
    in_two_ranges(s, [&](int64_t begin, int64_t end) {
      kernels.gradient(call.how,
                       {call.grad.data(), out.data(), call.y.data()},
                       {dy.data(), sum_y.data(), sum_noise.data(), sum.data()},
                       begin,
                       end);
    });
    double worst = 0;
    const auto differ = [&](double a, double b) { worst = std::max(worst, std::abs(a - b)); };
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t j = 0; j < s.c; ++j) {
        double of_y = 0, of_noise = 0, plain = 0;
        for (int64_t k = 0; k < s.p; ++k) {
          const size_t at = s.at(i, j, k);
          const double du = call.grad[at] * call.slope(call.u(s, i, j, k));
          differ(dy[at], du * 0.7 * call.d[static_cast<size_t>(i * s.c + j)]);
          of_y += du * call.y[at];
          of_noise += du * call.noise[static_cast<size_t>(i * s.p + k)];
          plain += du;
        }
        const double scale = std::sqrt(static_cast<double>(s.p));
        differ(s.sum(sum_y, i, j) / scale, of_y / scale);
        differ(s.sum(sum_noise, i, j) / scale, of_noise / scale);
        differ(s.sum(sum, i, j) / scale, plain / scale);
      }
    }
    CHECK(worst < 1e-4);
  });
}

TEST_CASE("TheEpiloguesSecondDerivativeIsThatOfItsGradient") {
  for_all_act_kernels([](const ActKernels& kernels, const ActSizes& s, const Call& call) {
    Numbers out(call.y.size()), dgrad(call.y.size()), dy(call.y.size());
    kernels.act(call.how, call.y.data(), out.data(), 0, s.units());
    std::vector<double> sum_d(static_cast<size_t>(s.sums()));
    in_two_ranges(s, [&](int64_t begin, int64_t end) {
      kernels.second(call.how,
                     {call.grad.data(), out.data(), call.y.data()},
                     {call.along_y.data(),
                      call.along_d.data(),
                      call.along_strength.data(),
                      call.along_bias.data()},
                     {dgrad.data(), dy.data(), sum_d.data()},
                     begin,
                     end);
    });
    double worst = 0;
    const auto differ = [&](double a, double b) { worst = std::max(worst, std::abs(a - b)); };
    for (int64_t i = 0; i < s.n; ++i) {
      for (int64_t j = 0; j < s.c; ++j) {
        const auto plane = static_cast<size_t>(i * s.c + j), channel = static_cast<size_t>(j);
        double of_d = 0;
        for (int64_t k = 0; k < s.p; ++k) {
          const size_t at = s.at(i, j, k);
          const double c = call.slope(call.u(s, i, j, k)), du = call.grad[at] * c;
          const double along =
              call.along_y[at] * 0.7 * call.d[plane] + 0.7 * call.along_d[plane] * call.y[at] +
              double(call.along_strength[channel]) * call.noise[static_cast<size_t>(i * s.p + k)] +
              call.along_bias[channel];
          differ(dgrad[at], c * along);
          differ(dy[at], du * 0.7 * call.along_d[plane]);
          of_d += du * call.along_y[at];
        }
        const double scale = std::sqrt(static_cast<double>(s.p));
        differ(s.sum(sum_d, i, j) / scale, of_d / scale);
      }
    }
    CHECK(worst < 1e-4);
  });
}

TEST_CASE("RowsHaveTheirProductsAndFactors") {
  for (const CpuKernels* set : available_cpu_kernels()) {
    const ModulationKernels& kernels = set->modulation;
    for (const int64_t length : {int64_t{9}, int64_t{1}, int64_t{16}}) {
      constexpr int64_t kRows = 37;
      const Numbers a = normal_numbers(kRows * length, 1), b = normal_numbers(kRows * length, 2);
      Numbers sums(kRows), out(a.size());
      kernels.row_products(a.data(), b.data(), sums.data(), length, 0, kRows);
      kernels.scaled_rows(a.data(), sums.data(), 2, out.data(), length, 0, kRows);
      for (int64_t r = 0; r < kRows; ++r) {
        double sum = 0;
        for (int64_t i = r * length; i < (r + 1) * length; ++i)
          sum += double(a[static_cast<size_t>(i)]) * b[static_cast<size_t>(i)];
        CHECK(sums[static_cast<size_t>(r)] == Approx(sum).margin(1e-5));
        for (int64_t i = r * length; i < (r + 1) * length; ++i)
          CHECK(out[static_cast<size_t>(i)] ==
                Approx(2 * sum * a[static_cast<size_t>(i)]).margin(1e-4));
      }
    }
  }
}
