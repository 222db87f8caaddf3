// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/filtered_lrelu_slopes.h"
#include "cpu_kernels/shuffles.h"

// Lines of pixels with kLanes channels side by side, and filters along and across them.
namespace gantrain::GANTRAIN_ISA {

// Calls step.operator()<n>(i) for blocks of 8, 4, 2 and 1 of `count` numbers, in order: sums of
// several numbers at a time hide the time that each addition takes.
template <class Step>
inline void in_blocks(int64_t count, const Step& step) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) step.template operator()<8>(i);
  if ((count - i) & 4) {
    step.template operator()<4>(i);
    i += 4;
  }
  if ((count - i) & 2) {
    step.template operator()<2>(i);
    i += 2;
  }
  if ((count - i) & 1) step.template operator()<1>(i);
}

// to[i * to_step] (+)= the sum over j < count of weights[j] * from[i * step + j], for i < n. At
// least one weight. (Sums that begin as an array of zeros are not kept in registers.)
template <bool kAdd>
inline void filter_along(const float* from,
                         int64_t step,
                         const float* weights,
                         int64_t count,
                         float* to,
                         int64_t to_step,
                         int64_t n) {
  in_blocks(n, [&]<int kBlock>(int64_t i) {
    const float* in = from + i * step * kLanes;
    float* out = to + i * to_step * kLanes;
    Vec sums[kBlock];
    const Vec first = all(weights[0]);
    for (int k = 0; k < kBlock; ++k) {
      sums[k] = first * load(in + k * step * kLanes);
      if constexpr (kAdd) sums[k] += load(out + k * to_step * kLanes);
    }
    for (int64_t j = 1; j < count; ++j) {
      const Vec w = all(weights[j]);
      for (int k = 0; k < kBlock; ++k) sums[k] += w * load(in + (k * step + j) * kLanes);
    }
    for (int k = 0; k < kBlock; ++k) store(out + k * to_step * kLanes, sums[k]);
  });
}

// to[i] = the sum over j < count of weights[j] * lines[j][i], for i < n. At least one weight.
inline void filter_across(
    const float* const* lines, const float* weights, int64_t count, int64_t n, float* to) {
  in_blocks(n, [&]<int kBlock>(int64_t i) {
    Vec sums[kBlock];
    const Vec first = all(weights[0]);
    for (int k = 0; k < kBlock; ++k) sums[k] = first * load(lines[0] + (i + k) * kLanes);
    for (int64_t j = 1; j < count; ++j) {
      const Vec w = all(weights[j]);
      const float* from = lines[j] + i * kLanes;
      for (int k = 0; k < kBlock; ++k) sums[k] += w * load(from + k * kLanes);
    }
    for (int k = 0; k < kBlock; ++k) store(to + (i + k) * kLanes, sums[k]);
  });
}

// Copies `count` pixels of `channels` channels (1 to kLanes) to a line, plus a bias for each
// channel. `from` has distances as MapsView.
inline void read_pixels(const float* from,
                        int64_t channel,
                        int64_t column,
                        int64_t channels,
                        int64_t count,
                        Vec bias,
                        float* to) {
  if (channel == 1) {
    for (int64_t i = 0; i < count; ++i)
      store(to + i * kLanes, load_within(from + i * column, channels) + bias);
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t columns = least(kLanes, count - i);
    Vec r[kLanes];
    if (columns == kLanes && channels == kLanes) {
      for (int64_t c = 0; c < kLanes; ++c) r[c] = load(from + c * channel + i);
    } else {
      for (int64_t c = 0; c < kLanes; ++c)
        r[c] = c < channels ? load_within(from + c * channel + i, columns) : Vec{};
    }
    transpose(r);
    for (int64_t k = 0; k < columns; ++k) store(to + (i + k) * kLanes, r[k] + bias);
  }
}

// The way back.
inline void write_pixels(const float* from,
                         int64_t channels,
                         int64_t count,
                         float* to,
                         int64_t channel,
                         int64_t column) {
  if (channel == 1) {
    for (int64_t i = 0; i < count; ++i)
      store_within(to + i * column, load(from + i * kLanes), channels);
    return;
  }
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t columns = least(kLanes, count - i);
    Vec r[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) r[k] = k < columns ? load(from + (i + k) * kLanes) : Vec{};
    transpose(r);
    for (int64_t c = 0; c < channels; ++c) store_within(to + c * channel + i, r[c], columns);
  }
}

}  // namespace gantrain::GANTRAIN_ISA
