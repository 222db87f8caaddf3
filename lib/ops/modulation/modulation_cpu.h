// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// What is done to feature maps after a modulated convolution: out = clamp(gain * act(u)) with
// u = scale * d * y + strength * noise + bias, where act(u) is u for u > 0 and alpha * u for u <=
// 0. Maps are [samples, channels, pixels]; a plane is one channel of one sample, and plane p
// belongs to sample p / channels. Null pointers stand for absent terms (d: 1).
struct ActPlanes {
  int64_t channels, pixels;
  float scale, alpha, gain;
  float clamp;              // of out; infinity: none
  const float* d;           // [planes]
  const float* noise;       // [pixels] of sample n begin at noise + n * noise_stride
  int64_t noise_stride;     // 0: the same for all samples
  const float* strength;    // that of channel c is strength[c * strength_stride]
  int64_t strength_stride;  // 0: the same for all channels
  const float* bias;        // [channels]
};

// What the derivatives are computed from. c = d out / d u is a function of out, which may be null
// where c is `gain` everywhere.
struct ActSaved {
  const float* grad;  // derivative of the loss by out
  const float* out;
  const float* y;  // null where no derivative by d is asked for
};

// With du = grad * c, the derivatives of the loss: by y, and of each plane the sums over pixels of
// du * y (to be multiplied by scale), du * noise and du. Those of sums that are null are not
// computed.
struct ActGradient {
  float* y;
  double* sum_y;
  double* sum_noise;
  double* sum;
};

// Factors of the four derivatives above in a sum that is differentiated again. Null: 0.
struct ActDirections {
  const float* y;         // like y
  const float* d;         // [planes]
  const float* strength;  // with strength_stride
  const float* bias;      // [channels]
};

// Derivatives of sum(y' * dy) + sum(d' * dd) + ... by grad, y and d.
struct ActSecond {
  float* grad;
  float* y;       // null: not computed
  double* sum_d;  // null: not computed; of each plane, to be multiplied by scale
};

// The functions for maps in that order of memory.
struct ActKernels {
  void (*act)(const ActPlanes& how, const float* y, float* out, int64_t begin, int64_t end);
  void (*gradient)(
      const ActPlanes& how, const ActSaved& in, const ActGradient& to, int64_t begin, int64_t end);
  void (*second)(const ActPlanes& how,
                 const ActSaved& saved,
                 const ActDirections& directions,
                 const ActSecond& result,
                 int64_t begin,
                 int64_t end);
};

// How many pixels a part of a channels-last sample has, at most.
constexpr int64_t kPixelPart = 256;

struct ModulationKernels {
  // Planes [begin, end) of maps [samples, channels, pixels]; sums are [planes].
  ActKernels planes;
  // Parts [begin, end) of maps [samples, pixels, channels]. Part i is the pixels from kPixelPart *
  // (i % parts) on of sample i / parts, where parts = ceil(pixels / kPixelPart); sums are [samples
  // * parts, channels], to be added up over the parts.
  ActKernels channels_last;

  // The sums of products a * b of each of the rows [begin, end) of a and b [rows, length].
  void (*row_products)(
      const float* a, const float* b, float* sums, int64_t length, int64_t begin, int64_t end);
  // out = factor * w * by[row].
  void (*scaled_rows)(const float* w,
                      const float* by,
                      float factor,
                      float* out,
                      int64_t length,
                      int64_t begin,
                      int64_t end);
};

}  // namespace gantrain
