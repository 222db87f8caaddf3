// SPDX-License-Identifier: Apache-2.0
#include "image/planes.h"

namespace gantrain {

namespace {

// One row to as many rows as there are channels, which lie `plane` bytes apart. With a constant
// number of channels and AVX2 this compiles to shuffles of whole registers.
template <int kChannels, bool kFlipped>
[[gnu::always_inline]] inline void copy_row(const uint8_t* __restrict in,
                                            int64_t width,
                                            int64_t plane,
                                            uint8_t* __restrict out) {
  for (int64_t x = 0; x < width; ++x) {
    const int64_t to = kFlipped ? width - 1 - x : x;
    for (int c = 0; c < kChannels; ++c) out[c * plane + to] = in[kChannels * x + c];
  }
}

// The planes of three channels are named apart: so the compiler sees that none overlaps another.
template <bool kFlipped>
[[gnu::always_inline]] inline void copy_colors(const uint8_t* __restrict in,
                                               int64_t width,
                                               uint8_t* __restrict red,
                                               uint8_t* __restrict green,
                                               uint8_t* __restrict blue) {
  for (int64_t x = 0; x < width; ++x) {
    const int64_t to = kFlipped ? width - 1 - x : x;
    red[to] = in[3 * x];
    green[to] = in[3 * x + 1];
    blue[to] = in[3 * x + 2];
  }
}

using CopyColors = void (*)(const uint8_t*, int64_t, uint8_t*, uint8_t*, uint8_t*);

template <bool kFlipped>
void colors_of_any(const uint8_t* in, int64_t width, uint8_t* r, uint8_t* g, uint8_t* b) {
  copy_colors<kFlipped>(in, width, r, g, b);
}

template <bool kFlipped>
[[gnu::target("avx2")]] void colors_of_avx2(
    const uint8_t* in, int64_t width, uint8_t* r, uint8_t* g, uint8_t* b) {
  copy_colors<kFlipped>(in, width, r, g, b);
}

template <bool kFlipped>
CopyColors best_colors() {
  return __builtin_cpu_supports("avx2") ? colors_of_avx2<kFlipped> : colors_of_any<kFlipped>;
}

template <int kChannels, bool kFlipped>
void copy_rows(const ImageView& image, uint8_t* out) {
  const int64_t plane = image.width * image.height;
  const CopyColors colors = best_colors<kFlipped>();
  for (int64_t row = 0; row < image.height; ++row) {
    const uint8_t* in = image.pixels + row * image.width * kChannels;
    uint8_t* to = out + row * image.width;
    if constexpr (kChannels == 3) {
      colors(in, image.width, to, to + plane, to + 2 * plane);
    } else {
      copy_row<kChannels, kFlipped>(in, image.width, plane, to);
    }
  }
}

template <bool kFlipped>
void copy_channels(const ImageView& image, uint8_t* out) {
  switch (image.channels) {
    case 1:
      return copy_rows<1, kFlipped>(image, out);
    case 2:
      return copy_rows<2, kFlipped>(image, out);
    case 3:
      return copy_rows<3, kFlipped>(image, out);
    default:
      return copy_rows<4, kFlipped>(image, out);
  }
}

}  // namespace

void copy_planes(const ImageView& image, bool flipped, uint8_t* out) {
  flipped ? copy_channels<true>(image, out) : copy_channels<false>(image, out);
}

}  // namespace gantrain
