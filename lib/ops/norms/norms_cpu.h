// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// Maps x [samples, channels, pixels].
struct NormMaps {
  int64_t channels, pixels;
  float eps;  // added to a mean square or a variance
};

// Adaptive instance normalisation of planes (one channel of one sample each): out = (x - mean) *
// inverse * (1 + scale) + shift. `style` is [samples, 2 channels]: the scales, then the shifts.
struct AdainInput {
  const float* x;
  const float* style;
};
// Where out goes, and for each plane its mean and inverse = 1 / sqrt(variance + eps).
struct AdainOutput {
  float* out;
  float* mean;
  float* inverse;
};
struct AdainMoments {
  const float* mean;
  const float* inverse;
};
struct AdainGradient {
  float* x;
  float* style;
};

struct NormKernels {
  // Pixel norm, x / sqrt(mean over channels of x^2 + eps), for the bands [begin, end). Band i is
  // the pixels from kPixelBand * (i % bands) on, kPixelBand of them at most, of sample i / bands,
  // where bands = ceil(pixels / kPixelBand).
  void (*pixel_norm)(const NormMaps& how, const float* x, float* out, int64_t begin, int64_t end);
  void (*pixel_norm_gradient)(
      const NormMaps& how, const float* dy, const float* x, float* dx, int64_t begin, int64_t end);

  // For the planes [begin, end). The gradient is computed from the moments that adain() wrote.
  void (*adain)(
      const NormMaps& how, const AdainInput& in, const AdainOutput& to, int64_t begin, int64_t end);
  void (*adain_gradient)(const NormMaps& how,
                         const AdainInput& input,
                         const AdainMoments& moments,
                         const float* dout,
                         const AdainGradient& result,
                         int64_t begin,
                         int64_t end);
};

constexpr int64_t kPixelBand = 1024;

// Minibatch standard deviation (Karras et al. 2018a, sec. 3) of x [g * groups, parts, length],
// where group m consists of the samples m, m + groups, m + 2 groups, ...; a part is a share of a
// sample's channels with all their pixels. The result has `parts` planes of `pixels` more in each
// sample.
struct MinibatchStd {
  int64_t g, groups, parts;
  int64_t length, pixels;
  float eps;  // added to the variance
};

// Both functions compute the cells [begin, end); cell i is part i % parts of group i / parts.
struct MinibatchStdKernels {
  // out [g * groups, parts * (length + pixels)]: x, then each part's mean deviation in a plane.
  void (*forward)(const MinibatchStd& how, const float* x, float* out, int64_t begin, int64_t end);
  // dx, like x, from dout, like out.
  void (*gradient)(const MinibatchStd& how,
                   const float* dout,
                   const float* x,
                   float* dx,
                   int64_t begin,
                   int64_t end);
};

}  // namespace gantrain
