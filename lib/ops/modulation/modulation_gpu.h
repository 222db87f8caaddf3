// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/gpu/launch.h"
#include "ops/gpu/planes_walk.h"

namespace gantrain::cuda_kernels {

// What modulated_act() (modulation.h) computes: out = clamp(gain * act(u)), u = scale * d *
// y
// + strength * noise + bias, where act(u) is u for u > 0, else alpha * u. Maps, of type `type`
// (not kFloat64), lie in memory as `maps` says. Null pointers stand for absent terms (d: 1).
struct ModulatedActTask {
  Type type;
  Maps maps;
  float scale, alpha, gain, clamp;  // a clamp of infinity changes nothing
  const float* d;                   // [samples, channels]
  const float* noise;               // [pixels] of sample n begin at noise + n * noise_stride
  int64_t noise_stride;             // 0: the same for all samples
  const float* strength;            // that of channel c is strength[c * strength_stride]; null: 1
  int64_t strength_stride;          // 0: the same for all channels
  const float* bias;                // [channels]
};

void modulated_act(const ModulatedActTask& task, const void* y, void* out, Stream stream);

// The same plus `added`, in one rounding.
struct AddedActArrays {
  const void *y, *added;
  void* out;
};
void added_act(const ModulatedActTask& task, const AddedActArrays& arrays, Stream stream);

// With du = grad * c, where c = d out / d u is a function of out (null: c is the gain everywhere),
// dy = du * scale * d, and for sum_parts() the sums over pixels of du * y, du * noise and du,
// float [gradient_parts().count()] each. Null sums are not wanted. y may be null without sums of
// it.
struct ModulatedGradientArrays {
  const void *grad, *out, *y;
  void* dy;
  float *sum_y, *sum_noise, *sum;
};
void modulated_act_gradient(const ModulatedActTask& task,
                            const ModulatedGradientArrays& arrays,
                            Stream stream);
Parts gradient_parts(const ModulatedActTask& task, const ModulatedGradientArrays& arrays);

// Factors of the derivatives above in a sum that is differentiated again. Null: 0.
struct ModulatedDirections {
  const void* y;          // like y
  const float* d;         // [samples, channels]
  const float* strength;  // with strength_stride
  const float* bias;      // [channels]
};
// Derivatives of that sum by grad, y and d. by_y: null if it is not wanted. sum_d: the sums over
// pixels for the derivative by d, to be multiplied by the scale; null if not wanted.
struct ModulatedSecondArrays {
  const void *grad, *out, *y;
  ModulatedDirections along;
  void *by_grad, *by_y;
  float* sum_d;
};
void modulated_act_second(const ModulatedActTask& task,
                          const ModulatedSecondArrays& arrays,
                          Stream stream);
Parts second_parts(const ModulatedActTask& task, const ModulatedSecondArrays& arrays);

// out as above, and scaled = out * then [samples, channels], the input of the next convolution. A
// null out is not wanted.
struct ScaledActArrays {
  const void* y;
  const float* then;
  void *out, *scaled;
};
void scaled_act(const ModulatedActTask& task, const ScaledActArrays& arrays, Stream stream);

// From the derivatives by out and by scaled, of which one may be null: dy = du * scale * d with du
// = (grad + grad_scaled * then) * c (a null `then` is 1), and for sum_parts() the sums over pixels
// of du * y, du * noise, du and grad_scaled * out, float [scaled_parts().count()] each. out is
// computed anew from y. Null sums are not wanted.
struct ScaledGradientArrays {
  const void *grad, *grad_scaled, *y;
  const float* then;
  void* dy;
  float *sum_y, *sum_noise, *sum, *sum_then;
};
void scaled_act_gradient(const ModulatedActTask& task,
                         const ScaledGradientArrays& arrays,
                         Stream stream);
Parts scaled_parts(const ModulatedActTask& task, const ScaledGradientArrays& arrays);

// Whether these calls move 16 bytes at a time.
bool packed(const ModulatedActTask& task, const void* y, const void* out);
bool packed(const ModulatedActTask& task, const AddedActArrays& arrays);
bool packed(const ModulatedActTask& task, const ScaledActArrays& arrays);
bool packed(const ModulatedActTask& task, const ScaledGradientArrays& arrays);
bool packed(const ModulatedActTask& task, const ModulatedGradientArrays& arrays);
bool packed(const ModulatedActTask& task, const ModulatedSecondArrays& arrays);

// Rows of numbers side by side, which are the planes of a convolution's weights: `length` is 9 for
// 3 x 3 pixels.
struct WeightRows {
  Type type;  // not kFloat64
  int64_t rows, length;
};

// sums[row] = the sum of a * b over the row.
struct RowProductsArrays {
  const void *a, *b;
  void* sums;
};
void row_products(const WeightRows& how, const RowProductsArrays& arrays, Stream stream);

// out = factor * w * by[row].
struct ScaledRowsArrays {
  const void *w, *by;
  void* out;
};
void scaled_rows(const WeightRows& how,
                 double factor,
                 const ScaledRowsArrays& arrays,
                 Stream stream);

// Whether these calls move 16 bytes at a time.
bool packed(const WeightRows& how, const RowProductsArrays& arrays);
bool packed(const WeightRows& how, const ScaledRowsArrays& arrays);

}  // namespace gantrain::cuda_kernels
