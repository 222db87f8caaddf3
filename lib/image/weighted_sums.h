// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gantrain {

// Internal to lib/image: the inner loops of resize(). Each output is the sum of a few neighbouring
// inputs, each times its weight, in whole numbers: 2^22 is a weight of 1, and every sum begins with
// a half, so that it is rounded when to_bytes() cuts it off. This is Pillow's arithmetic, bit for
// bit. The loops use AVX2 where the processor has it.

// The inputs and weights of each output along one axis: output i is the sum over k < count[i] of
// weight(i, k) * input(first[i] + k).
struct Taps {
  std::vector<int64_t> first;
  std::vector<int64_t> count;
  std::vector<int32_t> weights;  // [outputs, most]
  int64_t most = 0;              // the largest of `count`
  const int32_t* weights_of(int64_t i) const { return &weights[static_cast<size_t>(i * most)]; }
};

inline constexpr int kWeightBits = 22;

// out[x] = a half + sum over k of weights[k] * in[k * stride + x], for x < width.
void sum_rows(const uint8_t* in,
              int64_t stride,
              const int32_t* weights,
              int64_t count,
              int64_t width,
              int32_t* out);

// Sums along rows run over this many rows at once, whose numbers then lie side by side: a register
// holds the same pixel's same channel of all of them.
inline constexpr int64_t kRowsAtOnce = 8;
using EightRows = std::array<const uint8_t*, kRowsAtOnce>;

// out[x * 8 + r] = rows[r][x], for x < width.
void interleave(const EightRows& rows, int64_t width, int32_t* out);

// Sums along eight interleaved rows of pixels with 1 to 4 channels, [pixels, channels, 8], into
// [taps.first.size(), channels, 8]. The taps count pixels from in[0] on.
void sum_columns(const int32_t* in, int64_t channels, const Taps& taps, int32_t* out);

// Turns sums [width, 8] into bytes and takes the rows apart: out[r * stride + x].
void separate(const int32_t* in, int64_t width, int64_t stride, uint8_t* out);

// Turns sums into bytes, within 0 to 255.
void to_bytes(const int32_t* in, int64_t count, uint8_t* out);

}  // namespace gantrain
