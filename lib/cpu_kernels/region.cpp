// SPDX-License-Identifier: Apache-2.0
// Pixels between pictures of either layout and arrays with 32 channels side by side.
#include <utility>

#include "cpu_kernels/winograd_transform.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// Exchanges, in the square of vectors, the blocks of Step lanes off the diagonal.
template <int64_t Step, size_t... Lane>
inline void exchange(Vec* r, std::index_sequence<Lane...> /*lanes*/) {
  for (int64_t i = 0; i < kLanes; ++i) {
    if ((i & Step) != 0) continue;
    const Vec low = r[i], high = r[i + Step];
    r[i] =
        __builtin_shufflevector(low, high, ((Lane & Step) == 0 ? Lane : kLanes + Lane - Step)...);
    r[i + Step] =
        __builtin_shufflevector(low, high, ((Lane & Step) == 0 ? Lane + Step : kLanes + Lane)...);
  }
}

// Transposes kLanes vectors.
inline void transpose(Vec* r) {
  constexpr auto lanes = std::make_index_sequence<kLanes>();
  exchange<1>(r, lanes);
  exchange<2>(r, lanes);
  if constexpr (kLanes > 4) exchange<4>(r, lanes);
  if constexpr (kLanes > 8) exchange<8>(r, lanes);
}

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

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

// Pixels of one row whose channels lie `channel` apart and whose columns side by side.
void read_planes(const float* row, int64_t channel, Span j, int64_t channels, float* to) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = least(kLanes, channels - c);
    int64_t x = j.begin;
    for (; lanes == kLanes && x + kLanes <= j.end; x += kLanes) {
      Vec r[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) r[i] = load(row + (c + i) * channel + x - j.begin);
      transpose(r);
      for (int64_t i = 0; i < kLanes; ++i) store(to + (x + i) * kPanel + c, r[i]);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      const float* plane = row + (c + i) * channel - j.begin;
      for (int64_t rest = x; rest < j.end; ++rest) to[rest * kPanel + c + i] = plane[rest];
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

void write_planes(const float* from, Span j, int64_t channels, float* row, int64_t channel) {
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t lanes = least(kLanes, channels - c);
    int64_t x = j.begin;
    for (; lanes == kLanes && x + kLanes <= j.end; x += kLanes) {
      Vec r[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) r[i] = load(from + (x + i) * kPanel + c);
      transpose(r);
      for (int64_t i = 0; i < kLanes; ++i) store(row + (c + i) * channel + x - j.begin, r[i]);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      float* plane = row + (c + i) * channel - j.begin;
      for (int64_t rest = x; rest < j.end; ++rest) plane[rest] = from[rest * kPanel + c + i];
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
      read_planes(from, x.channel, j, channels, pixels);
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
      write_planes(pixels, j, channels, to, y.channel);
    } else {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t k = j.begin; k < j.end; ++k)
          to[c * y.channel + (k - j.begin) * region.step * y.column] = pixels[k * kPanel + c];
      }
    }
  }
}

}  // namespace gantrain::GANTRAIN_ISA
