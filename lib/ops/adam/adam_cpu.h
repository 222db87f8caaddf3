// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// The numbers of one step of Adam, already corrected for the bias of moments that began at zero.
struct AdamNumbers {
  double beta1, beta2;
  double rate;  // lr * sqrt(1 - beta2^t) / (1 - beta1^t) at the t-th step
  double eps;   // eps * sqrt(1 - beta2^t)
};

// Pointers to the same range of a parameter, its gradient and its moments.
struct AdamArrays {
  float* parameter;
  const float* gradient;
  float* first_moment;
  float* second_moment;
};

// What an optimizer's step does to arrays of `count` numbers, which may be cut anywhere.
struct UpdateKernels {
  // Returns whether all numbers are finite.
  bool (*all_finite)(const float* numbers, int64_t count);
  // Makes one step of Adam in place (Kingma & Ba 2015, alg. 1, in the form at the end of its
  // sec. 2): m <- m + (1 - beta1) (g - m), v <- v + (1 - beta2) (g^2 - v), p <- p - rate m /
  // (sqrt(v) + eps).
  void (*adam)(const AdamArrays& arrays, int64_t count, const AdamNumbers& numbers);
  // average <- average + (value - average) * weight, in place; a weight of 1 gives the value.
  void (*lerp)(float* average, const float* value, int64_t count, double weight);
};

}  // namespace gantrain
