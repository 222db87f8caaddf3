// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/fir.h"
#include "cpu_kernels/shuffles.h"
#include "cpu_kernels/vector.h"

// Weighted sums of places in memory, vector by vector, and the two ways of FirKernels::rows.
namespace gantrain::GANTRAIN_ISA {

// The sum over j < count of weights[j] * (from + places[j])[i], for i < n.
struct WeightedSum {
  const float* from;
  const int64_t* places;
  const float* weights;
  int64_t count;
};

// A WeightedSum of kCount terms, or of any number if that is 0, with all that does not depend on
// the place read beforehand.
template <int kCount>
class Weighted {
 public:
  explicit Weighted(const WeightedSum& sum) {
    for (int j = 0; j < kCount; ++j) {
      from_[j] = sum.from + sum.places[j];
      weight_[j] = all(sum.weights[j]);
    }
  }

  void pair(int64_t i, Vec* a, Vec* b) const {
    *a = (*this)(i, load);
    *b = (*this)(i + kLanes, load);
  }

  // The sums of kLanes places from i on, each array read by take(address).
  template <class Take>
  Vec operator()(int64_t i, const Take& take) const {
    Vec v = weight_[0] * take(from_[0] + i);
    for (int j = 1; j < kCount; ++j) v += weight_[j] * take(from_[j] + i);
    return v;
  }

 private:
  const float* from_[kCount];
  Vec weight_[kCount];
};
template <>
class Weighted<0> {
 public:
  explicit Weighted(const WeightedSum& sum) : sum_(sum) {}

  void pair(int64_t i, Vec* a, Vec* b) const {
    Vec first{}, second{};
    for (int64_t j = 0; j < sum_.count; ++j) {
      const float* from = sum_.from + sum_.places[j] + i;
      const Vec weight = all(sum_.weights[j]);
      first += weight * load(from);
      second += weight * load(from + kLanes);
    }
    *a = first;
    *b = second;
  }

  template <class Take>
  Vec operator()(int64_t i, const Take& take) const {
    Vec v{};
    for (int64_t j = 0; j < sum_.count; ++j) {
      v += all(sum_.weights[j]) * take(sum_.from + sum_.places[j] + i);
    }
    return v;
  }

 private:
  const WeightedSum sum_;
};

// FirKernels::rows for one filter of four taps along each axis at a stride of 1, at a stride of 2,
// or between pixels of an enlargement by 2, channels not innermost: all but the pixels stays in
// registers. Returns false, and does nothing, for other tasks.
bool rows_of_four_taps(const FirTask& task, const float* x, float* y, int64_t first, int64_t last);

}  // namespace gantrain::GANTRAIN_ISA
