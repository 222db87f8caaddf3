// SPDX-License-Identifier: Apache-2.0
// Pixels between pictures of either layout and arrays with 32 channels side by side.
#include "ops/convolution/winograd_transform_cpu.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// The range of indices j in [0, count) for which step * j + first lies in [0, size).
Span inside(int64_t count, int64_t first, int64_t step, int64_t size) {
  const int64_t begin = first >= 0 ? 0 : (-first + step - 1) / step;
  const int64_t end = first >= size ? 0 : (size - first + step - 1) / step;
  return {least(begin, count), most(least(end, count), least(begin, count))};
}

// What follows copies from pictures to arrays or, where not kRead, the other way.

// Pixels of one row whose channels lie side by side.
template <bool kRead>
void copy_channels_last(float* row, int64_t stride, Span j, int64_t channels, float* array) {
  const bool whole = channels == kPanel;
  for (int64_t x = j.begin; x < j.end; ++x) {
    float *picture = row + (x - j.begin) * stride, *pixel = array + x * kPanel;
    const float* from = kRead ? picture : pixel;
    float* to = kRead ? pixel : picture;
    if (whole) {
      for (int64_t c = 0; c < kPanel; c += kLanes) store(to + c, load(from + c));
    } else {
      for (int64_t c = 0; c < channels; ++c) to[c] = from[c];
    }
  }
}

inline void copy_one(bool read, float* picture, float* array) {
  if (read)
    *array = *picture;
  else
    *picture = *array;
}

// Fewer pixels than this are copied one by one.
constexpr int64_t kFewest = 3;

// Pixels of `lanes` planes and `columns` pixels of 32 channels. Counts that are known when this is
// compiled leave all of it in registers.
template <bool kRead, int64_t Step>
inline void copy_square(float* row, int64_t channel, int64_t lanes, int64_t columns, float* pixel) {
  Vec r[kLanes] = {};
  if constexpr (kRead) {
    for (int64_t i = 0; i < lanes; ++i) r[i] = load_every<Step>(row + i * channel, columns);
    transpose(r);
    for (int64_t i = 0; i < columns; ++i) store(pixel + i * kPanel, r[i]);
  } else {
    for (int64_t i = 0; i < columns; ++i) r[i] = load(pixel + i * kPanel);
    transpose(r);
    for (int64_t i = 0; i < lanes; ++i) store_every<Step>(row + i * channel, r[i], columns);
  }
}

// Pixels of one row whose channels lie `channel` apart and whose columns Step.
template <bool kRead, int64_t Step>
void copy_planes(float* row, int64_t channel, Span j, int64_t channels, float* array) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = least(kLanes, channels - c);
    int64_t x = j.begin;
    for (; j.end - x >= kFewest; x += kLanes) {
      const int64_t columns = least(kLanes, j.end - x);
      float* picture = row + c * channel + Step * (x - j.begin);
      float* pixel = array + x * kPanel + c;
      if (lanes == kLanes && columns == kLanes) {
        copy_square<kRead, Step>(picture, channel, kLanes, kLanes, pixel);
      } else {
        copy_square<kRead, Step>(picture, channel, lanes, columns, pixel);
      }
    }
    for (; x < j.end; ++x) {
      for (int64_t i = 0; i < lanes; ++i) {
        float* picture = row + (c + i) * channel + Step * (x - j.begin);
        copy_one(kRead, picture, array + x * kPanel + c + i);
      }
    }
  }
}

template <bool kRead>
void copy_region(const PictureView& x, int64_t image, const Region& region, float* array) {
  const int64_t channels = least(kPanel, x.channels - region.first_channel);
  const Span i = inside(region.rows, region.y, region.step, x.height);
  const Span j = inside(region.columns, region.x, region.step, x.width);
  const bool covered = channels == kPanel && i.begin == 0 && i.end == region.rows && j.begin == 0 &&
                       j.end == region.columns;
  if (kRead && !covered)
    std::memset(array, 0, region.rows * region.columns * kPanel * sizeof(float));
  float* corner = x.data + image * x.image + region.first_channel * x.channel +
                  (region.x + region.step * j.begin) * x.column;
  for (int64_t row = i.begin; row < i.end; ++row) {
    float* picture = corner + (region.y + region.step * row) * x.row;
    float* pixels = array + row * region.columns * kPanel;
    if (x.channel == 1) {
      copy_channels_last<kRead>(picture, x.column * region.step, j, channels, pixels);
    } else if (x.column == 1 && region.step == 1) {
      copy_planes<kRead, 1>(picture, x.channel, j, channels, pixels);
    } else if (x.column == 1 && region.step == 2) {
      copy_planes<kRead, 2>(picture, x.channel, j, channels, pixels);
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t k = j.begin; k < j.end; ++k) {
          float* at = picture + c * x.channel + (k - j.begin) * region.step * x.column;
          copy_one(kRead, at, pixels + k * kPanel + c);
        }
      }
    }
  }
}

}  // namespace

void read_region(const PictureView& x, int64_t image, const Region& region, float* to) {
  copy_region<true>(x, image, region, to);
}

void write_region(const float* from, const Region& region, const PictureView& y, int64_t image) {
  copy_region<false>(y, image, region, const_cast<float*>(from));
}

}  // namespace gantrain::GANTRAIN_ISA
