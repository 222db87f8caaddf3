// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

// Resampling with channels last, [samples, y, x, channels], by the filter of 4 x 4 taps.
//
// A thread owns a pack of channels, 16 bytes of them, and computes one column of outputs (two if up
// is 2) over several rows; the packs of a pixel lie in neighbouring threads, so that all loads and
// stores are of 16 bytes and fill 64 of memory in a row. A block copies its tile's inputs to shared
// memory as they are; eight neighbouring threads then read 128 bytes in a row, which meets every
// bank once. A thread reads each input of its column once and adds it to all the outputs that need
// it: 44 reads for 8 outputs of the plain filter. The 16 multiplications an output (4 if up is 2)
// stay below what the rate of memory leaves time for, so that the kernel is bound by memory. What
// is added to an output is asked for when its first input is read, so that nothing waits for it.
template <class T, class Shape, bool kAdds>
struct PixelsBody {
  using W = Wide<T>;
  using Y = typename Shape::Y;
  using X = typename Shape::X;
  static constexpr int kThreads = 128;
  // With three, BFloat16 with something added would spill registers (sm_100).
  static constexpr int kBlocks =
      kAdds ? (std::is_same_v<T, BFloat16> ? 2 : 3) : (sizeof(T) == 4 ? 6 : 4);
  static constexpr int kPack = kPackSize<T>;
  static constexpr int kMostPacks = 4;                   // of a pixel, in a tile
  static constexpr int kLoads = sizeof(T) == 4 ? 4 : 6;  // that a thread asks for at once

  // The tile of outputs, in pixels, where it has kMostPacks packs of each; with fewer it is wider.
  static constexpr int kColumnsEach = X::kUp;
  static constexpr int kRowsEach = Y::kDown > 1 ? 4 : 8;
  static constexpr int kColumns = 16 * X::kUp / X::kDown, kRows = 16;
  static constexpr int kLanes = kColumns / kColumnsEach * kMostPacks;  // that share rows
  static_assert(kThreads / kLanes * kRowsEach == kRows);

  // The tile of inputs.
  static constexpr int kInRows = Y::inputs(kRows);
  static constexpr int kRowStride = X::inputs(kColumns) * kMostPacks;  // in packs
  static constexpr int kStep = X::step(kColumnsEach), kRowStep = Y::step(kRowsEach);

  struct Shared {
    alignas(16) W taps[Shape::kTaps];
    Pack<T> in[kInRows * kRowStride];
  };
  struct Local {};

  UpFirDnArguments how;
  AxisStart start_y, start_x;
  int packs_log2;  // of the packs of a pixel that a tile has
  int columns;     // of a tile
  int in_packs;    // of a row of a tile of inputs
  Divider row_packs, groups, tiles_y, tiles_x;

  explicit PixelsBody(const UpFirDnArguments& arguments)
      : how(arguments), start_y(arguments.along_y), start_x(arguments.along_x), packs_log2(0) {
    const int64_t all = arguments.channels / kPack;
    while ((2 << packs_log2) <= kMostPacks && all % (2 << packs_log2) == 0) ++packs_log2;
    columns = kColumns * kMostPacks >> packs_log2;
    in_packs = X::inputs(columns) << packs_log2;
    row_packs = Divider(in_packs);
    groups = Divider(all >> packs_log2);
    tiles_y = Divider(blocks_for(arguments.along_y.out + start_y.skipped, kRows));
    tiles_x = Divider(blocks_for(arguments.along_x.out + start_x.skipped, columns));
  }

  int64_t blocks() const {
    return how.samples * tiles_y.divisor * tiles_x.divisor * groups.divisor;
  }
  GANTRAIN_BOTH int steps() const { return 2; }

  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    const Tile tile = tile_of(place.block);
    if (number == 0) {
      load_taps<T, Shape::kTaps>(how, place.thread, kThreads, shared.taps);
      load(tile, place.thread, shared);
    } else {
      compute(tile, place.thread, shared);
    }
  }

 private:
  // A tile's sample, first output and first channel.
  struct Tile {
    int64_t sample;
    int y, x, channel;
  };
  GANTRAIN_BOTH Tile tile_of(int64_t block) const {
    const auto i = static_cast<uint32_t>(block);
    const uint32_t pixels = groups.quotient(i), row = tiles_x.quotient(pixels);
    const uint32_t sample = tiles_y.quotient(row);
    return {sample,
            static_cast<int>(row - sample * tiles_y.divisor) * kRows,
            static_cast<int>(pixels - row * tiles_x.divisor) * columns,
            static_cast<int>(i - pixels * groups.divisor) * (kPack << packs_log2)};
  }

  // A pack that is only moved: its numbers would be taken apart, for which each load is waited for.
  struct alignas(16) Words {
    uint32_t words[4];
  };
  GANTRAIN_BOTH void load(const Tile& tile, int thread, Shared& shared) const {
    const int first_y = start_y.first + Y::step(tile.y), first_x = start_x.first + X::step(tile.x);
    const T* x = static_cast<const T*>(how.x) + tile.channel;
    const int count = kInRows * in_packs;
    // Several loads are on their way before the first is waited for.
    for (int begin = thread; begin < count; begin += kLoads * kThreads) {
      Words packs[kLoads];
      int places[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        const int i = begin + k * kThreads;
        const auto row = static_cast<int>(row_packs.quotient(static_cast<uint32_t>(i)));
        const int at = i - row * in_packs;
        const int y = first_y + row, column = first_x + (at >> packs_log2);
        places[k] = row * kRowStride + at;
        packs[k] = {};
        if (i < count && is_below(y, how.along_y.in) && is_below(column, how.along_x.in)) {
          const int64_t pixel = (tile.sample * how.along_y.in + y) * how.along_x.in + column;
          const T* from = x + pixel * how.channels + pack_of(at) * kPack;
          memcpy(&packs[k], __builtin_assume_aligned(from, sizeof(Words)), sizeof(Words));
        }
      }
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (begin + k * kThreads < count) memcpy(&shared.in[places[k]], &packs[k], sizeof(Words));
    }
  }
  GANTRAIN_BOTH int pack_of(int i) const { return i & ((1 << packs_log2) - 1); }

  GANTRAIN_BOTH void compute(const Tile& tile, int thread, const Shared& shared) const {
    const int lane = thread % kLanes, group = thread / kLanes;
    const int column = (lane >> packs_log2) * kColumnsEach, row = group * kRowsEach;
    if (tile.x + column >= how.along_x.out + start_x.skipped ||
        tile.y + row >= how.along_y.out + start_y.skipped)
      return;
    const Pack<T>* in = shared.in + group * kRowStep * kRowStride + pack_of(lane) +
                        ((lane >> packs_log2) * kStep << packs_log2);
    const Output to{tile.sample,
                    tile.y + row - start_y.skipped,
                    tile.x + column - start_x.skipped,
                    tile.channel + pack_of(lane) * kPack};
    W sums[kRowsEach][kColumnsEach][kPack] = {};
    Words added[kRowsEach][kColumnsEach] = {};
#pragma unroll
    for (int i = 0; i < Y::inputs(kRowsEach); ++i) {
      if constexpr (kAdds) {
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r)
          if (Y::first_input(r) == i) load_added(to, r, added[r]);
      }
#pragma unroll
      for (int c = 0; c < X::inputs(kColumnsEach); ++c) {
        const Pack<T> pack = in[i * kRowStride + (c << packs_log2)];
        W numbers[kPack];
#pragma unroll
        for (int n = 0; n < kPack; ++n) numbers[n] = widened(pack.numbers[n]);
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r)
#pragma unroll
          for (int k = 0; k < kColumnsEach; ++k)
            if (Y::has_tap(i, r) && X::has_tap(c, k))
              add(shared.taps[Y::tap(i, r) * X::kTaps + X::tap(c, k)], numbers, sums[r][k]);
      }
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r)
        if (Y::last_input(r) == i) store_row(to, r, sums[r], added[r]);
    }
  }

  GANTRAIN_BOTH static void add(W tap, const W* numbers, W* sums) {
#pragma unroll
    for (int n = 0; n < kPack; ++n) sums[n] += tap * numbers[n];
  }

  // A thread's first output, which may be one that is not stored.
  struct Output {
    int64_t sample;
    int y, x, channel;
  };
  // Of a row of outputs from to.x on, in numbers.
  GANTRAIN_BOTH int64_t offset_of(const Output& to, int row) const {
    const int64_t pixel = (to.sample * how.along_y.out + to.y + row) * how.along_x.out + to.x;
    return pixel * how.channels + to.channel;
  }
  GANTRAIN_BOTH void store_row(const Output& to,
                               int row,
                               const W (&sums)[kColumnsEach][kPack],
                               const Words (&added)[kColumnsEach]) const {
    if (!is_below(to.y + row, how.along_y.out)) return;
    T* out = static_cast<T*>(how.out) + offset_of(to, row);
#pragma unroll
    for (int k = 0; k < kColumnsEach; ++k) {
      if (!is_below(to.x + k, how.along_x.out)) continue;
      Pack<T> pack, more;
      memcpy(&more, &added[k], sizeof(Words));
#pragma unroll
      for (int n = 0; n < kPack; ++n) {
        W sum = sums[k][n];
        if constexpr (kAdds) sum += widened(more.numbers[n]);
        pack.numbers[n] = rounded<T>(sum);
      }
      store_pack(out + k * how.channels, pack);
    }
  }
  GANTRAIN_BOTH void load_added(const Output& to, int row, Words (&added)[kColumnsEach]) const {
    if (!is_below(to.y + row, how.along_y.out)) return;
    const T* from = static_cast<const T*>(how.added) + offset_of(to, row);
#pragma unroll
    for (int k = 0; k < kColumnsEach; ++k) {
      if (!is_below(to.x + k, how.along_x.out)) continue;
      memcpy(&added[k],
             __builtin_assume_aligned(from + k * how.channels, sizeof(Words)),
             sizeof(Words));
    }
  }
};

template <class T, class Shape>
bool try_shape(const UpFirDnArguments& how, const FirLaunch& launching) {
  return Shape::fits(how) && how.added == nullptr &&
         try_body<PixelsBody<T, Shape, false>>(how, launching);
}
template <class T, class Shape>
bool try_adding(const UpFirDnArguments& how, const FirLaunch& launching) {
  return Shape::fits(how) && how.added != nullptr &&
         try_body<PixelsBody<T, Shape, true>>(how, launching);
}

template <class T>
bool try_shapes(const UpFirDnArguments& how, const FirLaunch& launching) {
  const bool whole_packs = how.channels % kPackSize<T> == 0 && misaligned_numbers<T>(how.x) == 0 &&
                           misaligned_numbers<T>(how.out) == 0 &&
                           misaligned_numbers<T>(how.added) == 0;
  return whole_packs && (try_adding<T, FourTaps<2, 1>>(how, launching) ||
                         try_shape<T, FourTaps<1, 1>>(how, launching) ||
                         try_shape<T, FourTaps<2, 1>>(how, launching) ||
                         try_shape<T, FourTaps<1, 2>>(how, launching));
}

}  // namespace

bool upfirdn2d_pixels(const UpFirDnArguments& how, const FirLaunch& launching) {
  bool launched = false;
  with_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) launched = try_shapes<T>(how, launching);
  });
  return launched;
}

// The choice of a body, and the one for any filter, type and layout: each thread computes one
// output, in the order of memory, from the taps that meet an input. Neighbouring threads read
// neighbouring numbers, mostly from the first-level cache; the reads from there are what bounds it.

namespace {

// The taps of one output that meet inputs: [first, last] in steps of `up`, from input `input` on.
struct Window {
  int first, last, input;

  GANTRAIN_BOTH Window(const FirAxis& axis, int output) {
    const int begin = output * axis.down - axis.pad;  // where tap 0 lies
    input = begin > 0 ? (begin + axis.up - 1) / axis.up : 0;
    first = input * axis.up - begin;
    const int end = (axis.in - 1) * axis.up - begin;  // the tap at the last input
    last = end < axis.taps - 1 ? end : axis.taps - 1;
  }
};

template <class T>
struct GeneralBody {
  using W = Wide<T>;
  static constexpr int kThreads = 256;

  UpFirDnArguments how;
  int64_t inner;    // numbers that lie next to each other and share a pixel
  int64_t outputs;  // numbers
  AnyDivider by_inner, by_x, by_y;

  explicit GeneralBody(const UpFirDnArguments& arguments)
      : how(arguments),
        inner(arguments.channels_last ? arguments.channels : 1),
        outputs(arguments.samples * arguments.channels * arguments.along_y.out *
                arguments.along_x.out),
        by_inner(inner, outputs),
        by_x(arguments.along_x.out, outputs),
        by_y(arguments.along_y.out, outputs) {}

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t i = place.global(kThreads);
    if (i >= outputs) return;
    const int64_t pixel = by_inner.quotient(i), row = by_x.quotient(pixel);
    const int64_t plane = by_y.quotient(row);
    const Window y(how.along_y, static_cast<int>(row - plane * how.along_y.out));
    const Window x(how.along_x, static_cast<int>(pixel - row * how.along_x.out));
    const T* in = static_cast<const T*>(how.x) + (i - pixel * inner);
    W sum = 0;
    for (int ty = y.first, iy = y.input; ty <= y.last; ty += how.along_y.up, ++iy) {
      const T* line = in + (plane * how.along_y.in + iy) * how.along_x.in * inner;
      for (int tx = x.first, ix = x.input; tx <= x.last; tx += how.along_x.up, ++ix)
        sum += tap(ty, tx) * widened(line[ix * inner]);
    }
    static_cast<T*>(how.out)[i] = rounded<T>(sum * static_cast<W>(how.gain));
  }

 private:
  GANTRAIN_BOTH W tap(int y, int x) const {
    const int i = y * how.along_x.taps + x;
    const int last = how.along_y.taps * how.along_x.taps - 1;
    return static_cast<const W*>(how.f)[how.flip_filter ? i : last - i];
  }
};

// Planes of at most so many columns are computed several in a block.
constexpr int kSmallPlane = 64;

FirChoice attempt(const UpFirDnArguments& how, const FirLaunch& launching) {
  if (how.channels_last) {
    if (upfirdn2d_pixels(how, launching)) return {FirBody::kPixels, true};
    return {FirBody::kGeneral, false};
  }
  const bool direct = planes_store_directly(how);
  if (how.along_x.out <= kSmallPlane && upfirdn2d_planes(how, true, launching))
    return {FirBody::kSmallPlanes, direct};
  if (upfirdn2d_planes(how, false, launching)) return {FirBody::kPlanes, direct};
  return {FirBody::kGeneral, false};
}

}  // namespace

FirChoice fir_choice(const UpFirDnArguments& how) { return attempt(how, {nullptr, true}); }

void upfirdn2d(const UpFirDnArguments& how, Stream stream) {
  if (attempt(how, {stream, false}).body != FirBody::kGeneral) return;
  with_type(how.type, [&](auto tag) {
    using Body = GeneralBody<typename decltype(tag)::type>;
    const Body body(how);
    launch(body, blocks_for(body.outputs, Body::kThreads), stream);
  });
}

}  // namespace gantrain::cuda_kernels
