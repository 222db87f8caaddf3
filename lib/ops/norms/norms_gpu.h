// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/gpu/launch.h"

namespace gantrain::cuda_kernels {

// A tensor [outer, length, inner] in memory, to be summed along `length`.
struct SummedAxis {
  int64_t outer, length, inner;

  bool along() const { return inner == 1; }
  // Whether packs of so many numbers cover it.
  bool packs_fit(int pack) const { return (along() ? length : inner) % pack == 0; }
};

// Tensors of float32, float16 or bfloat16. Where dout is null, `out` is the result; else it is the
// derivative by x.
struct PixelNormArguments {
  Type type;
  SummedAxis channels;  // of x
  const void* x;
  const void* dout;
  void* out;
  float eps;
};
void pixel_norm(const PixelNormArguments& how, Stream stream);

// Adaptive instance normalisation of planes, one for each sample and channel. All but x, dout and
// out is float32.
struct AdainArguments {
  Type type;
  SummedAxis pixels;  // of x: [planes, pixels, 1] or [samples, pixels, channels]
  int64_t channels;
  const void* x;
  const void* dout;
  void* out;
  const float* style;  // [samples, 2 channels]: what is added to the scale 1, then the shift
  float* style_gradient;
  float* mean;     // [planes], written where dout is null, else read
  float* inverse;  // [planes], of the standard deviations, like `mean`
  float* work;     // adain_work() floats
  float eps;
};
int64_t adain_work(const AdainArguments& how);
void adain(const AdainArguments& how, Stream stream);

// Whether accesses are of 16 bytes.
bool packs(const PixelNormArguments& how);
bool packs(const AdainArguments& how);

// Minibatch standard deviation (norms.h) of float32, float16 or bfloat16. Sample m of
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
