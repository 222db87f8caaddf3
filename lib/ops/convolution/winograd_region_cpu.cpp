// SPDX-License-Identifier: Apache-2.0
// Pixels between pictures of either layout and arrays with 32 channels side by side.
#include "ops/convolution/winograd_transform_cpu.h"
#include "ops/vector/vector.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// The range of indices j in [0, count) for which step * j + first lies in [0, size).
Span inside(int64_t count, int64_t first, int64_t step, int64_t size) {
  const int64_t begin = first >= 0 ? 0 : (-first + step - 1) / step;
  const int64_t end = first >= size ? 0 : (size - first + step - 1) / step;
  return {least(begin, count), most(least(end, count), least(begin, count))};
}

// Pixels of one row whose channels lie side by side.
void read_channels_last(const float* row, int64_t stride, Span j, int64_t channels, float* to) {
  const bool whole = channels == kPanel;
  for (int64_t x = j.begin; x < j.end; ++x) {
    const float* from = row + (x - j.begin) * stride;
    float* pixel = to + x * kPanel;
    if (whole) {
      for (int64_t c = 0; c < kPanel; c += kLanes) store(pixel + c, load(from + c));
    } else {
      for (int64_t c = 0; c < channels; ++c) pixel[c] = from[c];
    }
  }
}

// Fewer pixels than this are copied one by one.
constexpr int64_t kFewest = 3;

// Copies pixels from `lanes` planes into `columns` pixels of 32 channels. Counts that are known
// when this is compiled leave all of it in registers.
template <int64_t Step>
inline void read_square(
    const float* row, int64_t channel, int64_t lanes, int64_t columns, float* to) {
  Vec r[kLanes] = {};
  for (int64_t i = 0; i < lanes; ++i) r[i] = load_every<Step>(row + i * channel, columns);
  transpose(r);
  for (int64_t i = 0; i < columns; ++i) store(to + i * kPanel, r[i]);
}

// Pixels of one row whose channels lie `channel` apart and whose columns Step.
template <int64_t Step>
void read_planes(const float* row, int64_t channel, Span j, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = least(kLanes, channels - c);
    int64_t x = j.begin;
    for (; j.end - x >= kFewest; x += kLanes) {
      const int64_t columns = least(kLanes, j.end - x);
      const float* from = row + c * channel + Step * (x - j.begin);
      float* pixel = to + x * kPanel + c;
      if (lanes == kLanes && columns == kLanes) {
        read_square<Step>(from, channel, kLanes, kLanes, pixel);
      } else {
        read_square<Step>(from, channel, lanes, columns, pixel);
      }
    }
    for (; x < j.end; ++x) {
      for (int64_t i = 0; i < lanes; ++i)
        to[x * kPanel + c + i] = row[(c + i) * channel + Step * (x - j.begin)];
    }
  }
}

void write_channels_last(const float* from, Span j, int64_t channels, float* row, int64_t stride) {
  const bool whole = channels == kPanel;
  for (int64_t x = j.begin; x < j.end; ++x) {
    const float* pixel = from + x * kPanel;
    float* to = row + (x - j.begin) * stride;
    if (whole) {
      for (int64_t c = 0; c < kPanel; c += kLanes) store(to + c, load(pixel + c));
    } else {
      for (int64_t c = 0; c < channels; ++c) to[c] = pixel[c];
    }
  }
}

// The other way round.
template <int64_t Step>
inline void write_square(
    const float* from, int64_t lanes, int64_t columns, float* row, int64_t channel) {
  Vec r[kLanes] = {};
  for (int64_t i = 0; i < columns; ++i) r[i] = load(from + i * kPanel);
  transpose(r);
  for (int64_t i = 0; i < lanes; ++i) store_every<Step>(row + i * channel, r[i], columns);
}

template <int64_t Step>
void write_planes(const float* from, Span j, int64_t channels, float* row, int64_t channel) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = least(kLanes, channels - c);
    int64_t x = j.begin;
    for (; j.end - x >= kFewest; x += kLanes) {
      const int64_t columns = least(kLanes, j.end - x);
      const float* pixel = from + x * kPanel + c;
      float* to = row + c * channel + Step * (x - j.begin);
      if (lanes == kLanes && columns == kLanes) {
        write_square<Step>(pixel, kLanes, kLanes, to, channel);
      } else {
        write_square<Step>(pixel, lanes, columns, to, channel);
      }
    }
    for (; x < j.end; ++x) {
      for (int64_t i = 0; i < lanes; ++i)
        row[(c + i) * channel + Step * (x - j.begin)] = from[x * kPanel + c + i];
    }
  }
}

}  // namespace

void read_region(const PictureView& x, int64_t image, const Region& region, float* to) {
  const int64_t channels = least(kPanel, x.channels - region.first_channel);
  const Span i = inside(region.rows, region.y, region.step, x.height);
  const Span j = inside(region.columns, region.x, region.step, x.width);
  const bool covered = channels == kPanel && i.begin == 0 && i.end == region.rows && j.begin == 0 &&
                       j.end == region.columns;
  if (!covered) std::memset(to, 0, region.rows * region.columns * kPanel * sizeof(float));
  const float* corner = x.data + image * x.image + region.first_channel * x.channel +
                        (region.x + region.step * j.begin) * x.column;
  for (int64_t row = i.begin; row < i.end; ++row) {
    const float* from = corner + (region.y + region.step * row) * x.row;
    float* pixels = to + row * region.columns * kPanel;
    if (x.channel == 1) {
      read_channels_last(from, x.column * region.step, j, channels, pixels);
    } else if (x.column == 1 && region.step == 1) {
      read_planes<1>(from, x.channel, j, channels, pixels);
    } else if (x.column == 1 && region.step == 2) {
      read_planes<2>(from, x.channel, j, channels, pixels);
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t k = j.begin; k < j.end; ++k)
          pixels[k * kPanel + c] = from[c * x.channel + (k - j.begin) * region.step * x.column];
      }
    }
  }
}

void write_region(const float* from, const Region& region, const PictureView& y, int64_t image) {
  const int64_t channels = least(kPanel, y.channels - region.first_channel);
  const Span i = inside(region.rows, region.y, region.step, y.height);
  const Span j = inside(region.columns, region.x, region.step, y.width);
  float* corner = y.data + image * y.image + region.first_channel * y.channel +
                  (region.x + region.step * j.begin) * y.column;
  for (int64_t row = i.begin; row < i.end; ++row) {
    float* to = corner + (region.y + region.step * row) * y.row;
    const float* pixels = from + row * region.columns * kPanel;
    if (y.channel == 1) {
      write_channels_last(pixels, j, channels, to, y.column * region.step);
    } else if (y.column == 1 && region.step == 1) {
      write_planes<1>(pixels, j, channels, to, y.channel);
    } else if (y.column == 1 && region.step == 2) {
      write_planes<2>(pixels, j, channels, to, y.channel);
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t k = j.begin; k < j.end; ++k)
          to[c * y.channel + (k - j.begin) * region.step * y.column] = pixels[k * kPanel + c];
      }
    }
  }
}

}  // namespace gantrain::GANTRAIN_ISA
