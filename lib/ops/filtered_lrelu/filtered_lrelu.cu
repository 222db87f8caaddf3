// SPDX-License-Identifier: Apache-2.0
// What the strips of filtered_lrelu_strips.cu do not know: any factors and filters.
//
// A block computes a tile of one plane's outputs: all that lies between the input and the output,
// the higher rate above all, stays in shared memory. Its steps are the tile's inputs, the filter up
// along x, the filter up along y with the activation, the filter down along x, and the filter down
// along y. A filter that is not separable takes both axes in the second of its steps.
//
// Along each axis sample m = pad + 1 + up * (n - 1) + a of the higher rate, 0 <= a < up, is the sum
// over j of tap[up - 1 - a + up * j] * pixel[n + j]: the zeros between pixels take no part.
#include <utility>

#include "ops/filtered_lrelu/filtered_lrelu_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

constexpr int kShared = 12 * 1024;  // floats, 48 KiB

// A block of `up` samples that are sums of pixels from `n` on, and which of them a sample is.
struct Phase {
  int n, a;

  GANTRAIN_BOTH Phase(int sample, int pad, int up) {
    const int from = sample - pad - 1 + up;  // of block 0's first sample; may be negative
    n = from >= 0 ? from / up : -((up - 1 - from) / up);
    a = from - n * up;
  }
};

template <class T>
struct FilteredLreluBody {
  static constexpr int kThreads = 256;
  struct Shared {
    alignas(16) float numbers[kShared];
  };
  struct Local {};

  FilteredLreluArguments how;
  int tile_h, tile_w;
  int mid_rows, mid_columns, in_rows, in_columns;  // of a tile
  int down_taps_at, first_at, second_at;           // in shared memory
  int used;                                        // floats of it
  Divider tiles_y, tiles_x, channels;
  Divider by_in_columns, by_mid_columns, by_quads, by_tile_w;

  FilteredLreluBody(const FilteredLreluArguments& arguments, int rows, int columns)
      : how(arguments), tile_h(rows), tile_w(columns) {
    mid_rows = (tile_h - 1) * down() + down_taps_y();
    mid_columns = ((tile_w - 1) * down() + down_taps_x() + 3) / 4 * 4;
    const auto inputs = [&](int samples, int taps) {
      return (samples + up() - 2) / up() + 1 + (taps + up() - 1) / up() - 1;
    };
    in_rows = inputs(mid_rows, up_taps_y());
    in_columns = inputs(mid_columns, up_taps_x());
    const auto numbers = [](bool separable, int taps_y, int taps_x) {
      return separable ? taps_x : taps_y * taps_x;
    };
    down_taps_at = numbers(up_separable(), up_taps_y(), up_taps_x());
    const int taps = down_taps_at + numbers(down_separable(), down_taps_y(), down_taps_x());
    first_at = (taps + 3) / 4 * 4;
    const int mid = mid_rows * mid_columns, in = (in_rows * in_columns + 3) / 4 * 4;
    const int half_up = in_rows * mid_columns, half_down = mid_rows * tile_w;
    second_at = first_at + (up_separable() && in > mid ? in : mid);
    const int second = up_separable() ? half_up : in;
    used = second_at + (down_separable() && half_down > second ? half_down : second);
    tiles_y = Divider(blocks_for(how.out_h, tile_h));
    tiles_x = Divider(blocks_for(how.out_w, tile_w));
    channels = Divider(how.channels);
    by_in_columns = Divider(in_columns);
    by_mid_columns = Divider(mid_columns);
    by_quads = Divider(mid_columns / 4);
    by_tile_w = Divider(tile_w);
  }

  int64_t blocks() const { return how.samples * how.channels * tiles_y.divisor * tiles_x.divisor; }
  GANTRAIN_BOTH int steps() const { return 5; }

  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    const Tile tile = tile_of(place.block);
    float* numbers = shared.numbers;
    if (number == 0) {
      load_taps(place.thread, numbers);
      load(tile, place.thread, numbers + (up_separable() ? first_at : second_at));
    } else if (number == 1) {
      if (up_separable()) up_along_x(tile, place.thread, numbers);
    } else if (number == 2) {
      up_and_activate(tile, place.thread, numbers);
    } else if (number == 3) {
      if (down_separable()) down_along_x(place.thread, numbers);
    } else {
      down_and_store(tile, place.thread, numbers);
    }
  }

 private:
  GANTRAIN_BOTH int up() const { return how.up; }
  GANTRAIN_BOTH int down() const { return how.down; }
  GANTRAIN_BOTH int up_taps_y() const { return how.up_filter.taps_y; }
  GANTRAIN_BOTH int up_taps_x() const { return how.up_filter.taps_x; }
  GANTRAIN_BOTH int down_taps_y() const { return how.down_filter.taps_y; }
  GANTRAIN_BOTH int down_taps_x() const { return how.down_filter.taps_x; }
  GANTRAIN_BOTH bool up_separable() const { return how.up_filter.separable; }
  GANTRAIN_BOTH bool down_separable() const { return how.down_filter.separable; }

  struct Tile {
    int64_t plane, channel;
    int y, x;          // of the outputs
    int mid_y, mid_x;  // the first sample of the higher rate
    int in_y, in_x;    // and the first pixel that it is a sum of
  };
  GANTRAIN_BOTH Tile tile_of(int64_t block) const {
    const auto i = static_cast<uint32_t>(block);
    Tile t;
    const uint32_t rest = tiles_x.quotient(i), tile = tiles_y.quotient(rest);
    t.x = static_cast<int>(i - rest * tiles_x.divisor) * tile_w;
    t.y = static_cast<int>(rest - tile * tiles_y.divisor) * tile_h;
    t.plane = tile;
    t.channel = tile - int64_t{channels.quotient(tile)} * channels.divisor;
    t.mid_y = t.y * down();
    t.mid_x = t.x * down();
    t.in_y = Phase(t.mid_y, how.pad_y, up()).n;
    t.in_x = Phase(t.mid_x, how.pad_x, up()).n;
    return t;
  }

  // Where a pixel of the tile's plane lies in maps of height * width.
  GANTRAIN_BOTH int64_t index(const Tile& t, int height, int width, int y, int x) const {
    return (t.plane * height + y) * width + x;
  }

  GANTRAIN_BOTH void load_taps(int thread, float* numbers) const {
    const int count = down_taps_at;
    const int all =
        down_taps_at + (down_separable() ? down_taps_x() : down_taps_y() * down_taps_x());
    for (int i = thread; i < all; i += kThreads) {
      const bool first = i < count;
      const float* taps = first ? how.up_filter.taps : how.down_filter.taps;
      const int k = first ? i : i - count, last = (first ? count : all - count) - 1;
      numbers[i] = taps == nullptr ? 1.F : taps[how.flip ? k : last - k];
    }
  }

  GANTRAIN_BOTH void load(const Tile& tile, int thread, float* in) const {
    const T* x = static_cast<const T*>(how.x);
    const float bias =
        how.bias == nullptr ? 0.F : widened(static_cast<const T*>(how.bias)[tile.channel]);
    for (int i = thread; i < in_rows * in_columns; i += kThreads) {
      const auto row = static_cast<int>(by_in_columns.quotient(static_cast<uint32_t>(i)));
      const int py = tile.in_y + row, px = tile.in_x + i - row * in_columns;
      const bool inside = py >= 0 && py < how.in_h && px >= 0 && px < how.in_w;
      in[i] = inside ? widened(x[index(tile, how.in_h, how.in_w, py, px)]) + bias : 0.F;
    }
  }

  // The sum over j of a phase's taps times numbers[j * stride].
  GANTRAIN_BOTH float phase_sum(
      const float* taps, int count, int a, const float* numbers, int stride) const {
    float sum = 0;
    for (int k = up() - 1 - a, at = 0; k < count; k += up(), at += stride)
      sum += taps[k] * numbers[at];
    return sum;
  }

  GANTRAIN_BOTH void up_along_x(const Tile& tile, int thread, float* numbers) const {
    const float* in = numbers + first_at;
    float* to = numbers + second_at;
    for (int i = thread; i < in_rows * mid_columns; i += kThreads) {
      const auto row = static_cast<int>(by_mid_columns.quotient(static_cast<uint32_t>(i)));
      const Phase phase(tile.mid_x + i - row * mid_columns, how.pad_x, up());
      to[i] =
          phase_sum(numbers, up_taps_x(), phase.a, in + row * in_columns + phase.n - tile.in_x, 1);
    }
  }

  // Four samples of a row a thread, whose slopes are one byte.
  GANTRAIN_BOTH void up_and_activate(const Tile& tile, int thread, float* numbers) const {
    const int quads = mid_columns / 4;
    for (int i = thread; i < mid_rows * quads; i += kThreads) {
      const auto row = static_cast<int>(by_quads.quotient(static_cast<uint32_t>(i)));
      const int column = (i - row * quads) * 4;
      const int y = tile.mid_y + row, x = tile.mid_x + column;
      const Phase phase(y, how.pad_y, up());
      Pack<float, 4> v{};
      if (up_separable()) {
        const float* from = numbers + second_at + (phase.n - tile.in_y) * mid_columns + column;
        for (int k = up() - 1 - phase.a; k < up_taps_y(); k += up(), from += mid_columns) {
          const Pack<float, 4> more = load_pack<float, 4>(from);
#pragma unroll
          for (int c = 0; c < 4; ++c) v.numbers[c] += numbers[k] * more.numbers[c];
        }
      } else {
        for (int c = 0; c < 4; ++c) v.numbers[c] = plane_sum(tile, phase, x + c, numbers);
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) v.numbers[c] *= how.gain;
      if (how.reads_slopes) {
        read_slopes(tile, y, x, v);
      } else {
        activate(tile, y, x, v);
      }
      float* to = numbers + first_at + row * mid_columns + column;
#pragma unroll
      for (int c = 0; c < 4; ++c) to[c] = v.numbers[c];
    }
  }

  // Of a filter that is not separable.
  GANTRAIN_BOTH float plane_sum(const Tile& tile,
                                const Phase& along_y,
                                int x,
                                const float* numbers) const {
    const Phase along_x(x, how.pad_x, up());
    const float* in =
        numbers + second_at + (along_y.n - tile.in_y) * in_columns + along_x.n - tile.in_x;
    float sum = 0;
    for (int k = up() - 1 - along_y.a; k < up_taps_y(); k += up(), in += in_columns)
      sum += phase_sum(numbers + k * up_taps_x(), up_taps_x(), along_x.a, in, 1);
    return sum;
  }

  GANTRAIN_BOTH void activate(const Tile& tile, int y, int x, Pack<float, 4>& v) const {
    unsigned bits = 0;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      float& u = v.numbers[c];
      const bool low = u <= 0;
      if (low) u *= how.slope;
      const bool over = u >= how.clamp, under = u <= -how.clamp;
      if (over) u = how.clamp;
      if (under) u = -how.clamp;
      // Behind the last sample there is none that a derivative goes through.
      const bool stopped = over || under || x + c >= how.mid_w();
      bits |= (static_cast<unsigned>(low) | static_cast<unsigned>(stopped) << 1) << (2 * c);
    }
    if (how.slopes == nullptr) return;
    // Samples that several tiles compute are written by one of them.
    const int end_y = tile.y + tile_h < how.out_h ? tile.mid_y + tile_h * down() : how.mid_h();
    const int end_x = tile.x + tile_w < how.out_w ? tile.mid_x + tile_w * down() : how.mid_w();
    if (y < end_y && x < end_x)
      how.slopes[(tile.plane * how.mid_h() + y) * (how.slope_columns() / 4) + x / 4] =
          static_cast<uint8_t>(bits);
  }

  GANTRAIN_BOTH void read_slopes(const Tile& tile, int y, int x, Pack<float, 4>& v) const {
    if (how.slopes == nullptr) return;
    const int row = y + how.slope_y, column = x + how.slope_x;
    const uint8_t* bytes =
        how.slopes + (tile.plane * how.slope_rows + row) * (how.read_columns / 4);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int at = column + c;
      const bool inside = row >= 0 && row < how.slope_rows && at >= 0 && at < how.read_columns;
      const unsigned bits = inside ? bytes[at / 4] >> (2 * (at % 4)) : 2U;
      if ((bits & 1) != 0) v.numbers[c] *= how.slope;
      if ((bits & 2) != 0) v.numbers[c] = 0;
    }
  }

  GANTRAIN_BOTH void down_along_x(int thread, float* numbers) const {
    const float* taps = numbers + down_taps_at;
    for (int i = thread; i < mid_rows * tile_w; i += kThreads) {
      const auto row = static_cast<int>(by_tile_w.quotient(static_cast<uint32_t>(i)));
      const float* from = numbers + first_at + row * mid_columns + (i - row * tile_w) * down();
      float sum = 0;
      for (int k = 0; k < down_taps_x(); ++k) sum += taps[k] * from[k];
      numbers[second_at + i] = sum;
    }
  }

  GANTRAIN_BOTH void down_and_store(const Tile& tile, int thread, const float* numbers) const {
    const float* taps = numbers + down_taps_at;
    for (int i = thread; i < tile_h * tile_w; i += kThreads) {
      const auto row = static_cast<int>(by_tile_w.quotient(static_cast<uint32_t>(i)));
      const int column = i - row * tile_w;
      if (tile.y + row >= how.out_h || tile.x + column >= how.out_w) continue;
      float sum = 0;
      if (down_separable()) {
        const float* from = numbers + second_at + row * down() * tile_w + column;
        for (int k = 0; k < down_taps_y(); ++k, from += tile_w) sum += taps[k] * *from;
      } else {
        const float* from = numbers + first_at + row * down() * mid_columns + column * down();
        for (int ky = 0; ky < down_taps_y(); ++ky, from += mid_columns)
          for (int kx = 0; kx < down_taps_x(); ++kx)
            sum += taps[ky * down_taps_x() + kx] * from[kx];
      }
      static_cast<T*>(how.out)[index(tile, how.out_h, how.out_w, tile.y + row, tile.x + column)] =
          rounded<T>(sum);
    }
  }
};

// The largest tile that fits, cut so that tiles are alike. Its samples begin at whole bytes of
// slopes: its width is a multiple of 4.
template <class Body>
Body tiled(const FilteredLreluArguments& how) {
  const auto cut = [](int pixels, int most) {
    return static_cast<int>(blocks_for(pixels, blocks_for(pixels, most)));
  };
  for (const auto& [rows, columns] :
       {std::pair{32, 32}, {16, 32}, {16, 16}, {8, 16}, {8, 8}, {4, 8}, {4, 4}, {2, 4}}) {
    const Body body(how, cut(how.out_h, rows), (cut(how.out_w, columns) + 3) / 4 * 4);
    if (body.used <= kShared) return body;
  }
  return Body(how, 1, 4);
}

}  // namespace

void filtered_lrelu(const FilteredLreluArguments& how, Stream stream) {
  if (how.strips) return filtered_lrelu_strips(how, stream);
  with_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      const auto body = tiled<FilteredLreluBody<T>>(how);
      launch(body, body.blocks(), stream);
    }
  });
}

}  // namespace gantrain::cuda_kernels
