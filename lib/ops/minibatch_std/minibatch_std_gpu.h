// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// Minibatch standard deviation (minibatch_std.h) of float32, float16 or bfloat16. Sample m of
// group member j is m + j * groups.
struct MinibatchStdArguments {
  Type type;
  bool channels_last;
  int64_t g, groups;
  int64_t channels, parts, pixels;
  const void* x;     // [g * groups, channels, pixels], or channels last
  const void* dout;  // like `out` of the forward pass; null: this is the forward pass
  void* out;         // forward: [g * groups, channels + parts, pixels]; else the derivative, like x
  float* work;       // minibatch_std_work() floats
  float eps;

  int64_t length() const { return channels / parts * pixels; }  // of a part of a sample
};
int64_t minibatch_std_work(const MinibatchStdArguments& how);
void minibatch_std(const MinibatchStdArguments& how, Stream stream);

// Whether accesses to tensors like x, and to those with more channels, are of 16 bytes.
struct MinibatchStdPacks {
  bool x, out;
};
MinibatchStdPacks packs(const MinibatchStdArguments& how);

}  // namespace gantrain::cuda_kernels
