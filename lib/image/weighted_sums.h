// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gantrain {

// Internal to lib/image: the inner loops of resize(). Each output is the sum of a few neighbouring
// inputs, each times its weight, added up in their order. The loops use AVX2 where the processor
// has it; products and sums are rounded each for itself, so that every processor gives the same.

// The inputs and weights of each output along one axis: output i is the sum over k < count[i] of
// weight(i, k) * input(first[i] + k).
struct Taps {
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<float> weights;  // [outputs, most]
  int64_t most = 0;            // the largest of `count`
  const float* weights_of(int64_t i) const { return &weights[static_cast<size_t>(i * most)]; }
};

// out[x] = sum over k of weights[k] * in[k * stride + x], for x < width.
void sum_rows(const uint8_t* in,
              int64_t stride,
              const float* weights,
              int64_t count,
              int64_t width,
              float* out);
void sum_rows(const float* in,
              int64_t stride,
              const float* weights,
              int64_t count,
              int64_t width,
              float* out);

// Sums along a row of pixels with 1 to 4 channels into a row of taps.first.size() pixels. The taps
// count pixels from in[0] on. Behind the last pixel there must be 4 more floats, of any value.
void sum_columns(const float* in, int64_t channels, const Taps& taps, float* out);

}  // namespace gantrain
