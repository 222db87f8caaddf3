// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/bias_act/activation.h"

namespace gantrain {

// What bias_act computes, clamp(gain * act(x + b)), over arrays that lie in memory as
// [outer, channels, inner] with a bias for each channel. Where there is neither a bias nor a sum by
// channel, [1, 1, n] does for any n numbers.
struct BiasActTask {
  Activation act;            // of two lines
  float alpha, gain, clamp;  // a clamp of infinity changes nothing
  int64_t outer, channels, inner;
};

// The arrays are cut into units, always in the same way. A unit is a part of one channel of one
// sample where inner is over 1, and else a few rows of `columns` numbers: a bias is repeated until
// it fills some vectors, so that rows of 3 channels are as fast as others.
struct BiasActUnits {
  int64_t count;    // how many units the arrays have
  int64_t numbers;  // the numbers of a unit, at most
  int64_t columns;  // 1 where inner is over 1; else the length of a row, a multiple of channels
};
inline BiasActUnits bias_act_units(const BiasActTask& task) {
  constexpr int64_t kRun = 4096, kRows = 32768, kShort = 64, kRepeats = 16;
  if (task.inner > 1) {
    const int64_t each = (task.inner + kRun - 1) / kRun;
    return {task.outer * task.channels * each, kRun, 1};
  }
  const int64_t columns = task.channels < kShort ? kRepeats * task.channels : task.channels;
  const int64_t numbers = columns < kRows ? kRows / columns * columns : columns;
  return {(task.outer * task.channels + numbers - 1) / numbers, numbers, columns};
}

// Each function computes the units [first, end). `b` has task.channels numbers where inner is over
// 1 and else units.columns, the biases one after another again and again; null is no bias.
struct BiasActKernels {
  void (*forward)(
      const BiasActTask& how, const float* x, const float* b, float* y, int64_t first, int64_t end);

  // dx = dy * gain * f', from y. Where `sums` is not null, sums[unit * columns + column] becomes
  // the sum of the unit's dx in that column. y is null where the derivative is the gain everywhere;
  // dx may be null then, if only the sums are wanted.
  void (*gradient)(const BiasActTask& task,
                   const float* dy,
                   const float* y,
                   float* dx,
                   float* sums,
                   int64_t first,
                   int64_t end);
};

}  // namespace gantrain
