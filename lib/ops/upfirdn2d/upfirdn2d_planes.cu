// SPDX-License-Identifier: Apache-2.0
// Resampling of contiguous planes, [samples, channels, y, x].
//
// A block computes a tile of outputs, of one large plane or of several small ones. It first copies
// the tile's inputs to shared memory, widened, with 16-byte loads: rows begin at any address (a
// transposed convolution makes them 2^n + 1 wide), so that the loads are aligned to memory rather
// than to the row. Each thread then sums up a run of outputs along x, 16 bytes of them, on several
// rows, from a window that it holds in registers: about two reads of shared memory an output. All
// taps are summed directly, 16 multiplications an output for 4 x 4 taps and 4 if up is 2: whether
// the filter is an outer product only the device knows, and memory bounds the kernel anyway.
// A run is stored by one 16-byte access if rows of outputs are aligned. Else runs pass through
// shared memory a second time, to be stored by accesses that are aligned to memory.
//
// Neighbouring threads read shared memory a fixed number of numbers apart. A gap after so many
// makes that distance odd, which spreads the threads over all banks.
#include "ops/upfirdn2d/upfirdn2d_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

template <class T, class Shape, bool kSmall>
struct PlanesBody {
  using W = Wide<T>;
  using Y = typename Shape::Y;
  using X = typename Shape::X;
  static constexpr int kThreads = 128;
  static constexpr int kRun = kPackSize<T>;  // outputs of a thread along x

  // The tile of outputs, and how threads share it out.
  static constexpr int kColumns = kSmall ? 16 : 128 / X::kDown;
  static constexpr int kRows = kSmall ? 16 : (sizeof(T) == 2 && Y::kUp == 1 ? 32 : 16) / Y::kDown;
  static constexpr int kRuns = kColumns / kRun;
  static constexpr int kRowsEach = kSmall ? 2 / Y::kDown : kRuns * kRows / kThreads;
  static constexpr int kGroups = kRows / kRowsEach;
  static constexpr int kPlanes = kThreads / (kRuns * kGroups);
  static_assert(kPlanes * kRuns * kGroups == kThreads && kRowsEach % Y::kUp == 0);

  // The tile of inputs, and the distances between neighbouring threads' windows in it.
  static constexpr int kInRows = Y::inputs(kRows), kInColumns = X::inputs(kColumns);
  static constexpr int kStep = X::step(kRun), kRowStep = Y::step(kRowsEach);
  static constexpr int with_gaps(int column) { return column + column / kStep; }
  // The second half of a warp may lie one row group below the first: it should meet other banks.
  static constexpr int row_stride() {
    const int least = with_gaps(kInColumns - 1) + 1;
    for (int stride = least; stride < least + 32; ++stride)
      if ((kRowStep * stride - kRuns * (kStep + 1)) % 32 == 0) return stride;
    return least;
  }
  static constexpr int kRowStride = row_stride();
  // Outputs that pass through shared memory have a gap of 4 bytes after each run.
  static constexpr int staged(int column) {
    return column + column / kRun * static_cast<int>(4 / sizeof(T));
  }
  static constexpr int kOutStride = staged(kColumns);
  // Aligned packs that cover n numbers, wherever they begin.
  static constexpr int packs_over(int n) { return (n + kRun - 2) / kRun + 1; }

  struct Shared {
    alignas(16) W taps[Shape::kTaps];
    W in[kPlanes * kInRows * kRowStride];
    T out[kPlanes * kRows * kOutStride];
  };
  struct Local {};

  UpFirDnArguments how;
  AxisStart start_y, start_x;
  int64_t planes;
  Divider tiles_y, tiles_x;
  int in_misaligned, out_misaligned;
  bool direct;

  explicit PlanesBody(const UpFirDnArguments& arguments)
      : how(arguments),
        start_y(arguments.along_y),
        start_x(arguments.along_x),
        planes(arguments.samples * arguments.channels),
        tiles_y(blocks_for(arguments.along_y.out + start_y.skipped, kRows)),
        tiles_x(blocks_for(arguments.along_x.out + start_x.skipped, kColumns)),
        in_misaligned(misaligned_numbers<T>(arguments.x)),
        out_misaligned(misaligned_numbers<T>(arguments.out)),
        direct(planes_store_directly(arguments)) {}

  int64_t blocks() const { return blocks_for(planes, kPlanes) * tiles_y.divisor * tiles_x.divisor; }
  GANTRAIN_BOTH int steps() const { return direct ? 2 : 3; }

  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    const Tile tile = tile_of(place.block);
    if (number == 0) {
      load_taps<T, Shape::kTaps>(how, place.thread, kThreads, shared.taps);
      load(tile, place.thread, shared);
    } else if (number == 1) {
      compute(tile, place.thread, shared);
    } else {
      store_staged(tile, place.thread, shared);
    }
  }

 private:
  // The first plane and output of a tile.
  struct Tile {
    int64_t plane;
    int y, x;
  };
  GANTRAIN_BOTH Tile tile_of(int64_t block) const {
    const auto i = static_cast<uint32_t>(block);
    const uint32_t row = tiles_x.quotient(i), group = tiles_y.quotient(row);
    return {static_cast<int64_t>(group) * kPlanes,
            static_cast<int>(row - group * tiles_y.divisor) * kRows,
            static_cast<int>(i - row * tiles_x.divisor) * kColumns};
  }

  // A pack that covers numbers of a tile's row. Several are loaded before the first is used.
  struct RowPack {
    Pack<T> pack;
    int64_t index;       // of its first number in x, negative before the first
    int row, column, x;  // where that number goes in the tile, and where it lies in the image
    bool exists, whole;  // whether the row is in the image, and the whole pack in the tensor
  };
  static constexpr int kInPacks = packs_over(kInColumns);
  static constexpr int kLoads = (kPlanes * kInRows * kInPacks + kThreads - 1) / kThreads;
  // Long filters leave no registers for more than one pack.
  static constexpr int kAtOnce = Shape::kTaps == 16 ? 2 : 1;
  static constexpr int kRounds = (kLoads + kAtOnce - 1) / kAtOnce;

  GANTRAIN_BOTH void load(const Tile& tile, int thread, Shared& shared) const {
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
      RowPack packs[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        packs[j] = row_pack(tile, thread + (round * kAtOnce + j) * kThreads);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) spread(packs[j], shared);
    }
  }

  GANTRAIN_BOTH RowPack row_pack(const Tile& tile, int i) const {
    RowPack p;
    p.row = i / kInPacks;
    const int y = start_y.first + Y::step(tile.y) + p.row % kInRows;
    const int first_x = start_x.first + X::step(tile.x);
    const int64_t plane = tile.plane + p.row / kInRows;
    const int64_t begin = (plane * how.along_y.in + y) * how.along_x.in + first_x;
    const auto shift = static_cast<int>((begin + in_misaligned) & (kRun - 1));
    p.column = i % kInPacks * kRun - shift;
    p.x = first_x + p.column;
    p.index = begin + p.column;
    p.exists = p.row < kPlanes * kInRows && plane < planes && is_below(y, how.along_y.in);
    const int64_t end = planes * how.along_y.in * how.along_x.in;
    p.whole = p.index >= 0 && p.index + kRun <= end;
    p.pack = {};
    if (p.exists && p.whole) p.pack = load_pack<T, kRun>(static_cast<const T*>(how.x) + p.index);
    return p;
  }

  GANTRAIN_BOTH void spread(RowPack& p, Shared& shared) const {
    if (p.row >= kPlanes * kInRows) return;
    const bool partly = p.exists && !p.whole;
#pragma unroll
    for (int j = 0; j < kRun; ++j) {
      const bool inside = p.exists && is_below(p.x + j, how.along_x.in);
      if (partly && inside) p.pack.numbers[j] = static_cast<const T*>(how.x)[p.index + j];
      if (is_below(p.column + j, kInColumns))
        shared.in[p.row * kRowStride + with_gaps(p.column + j)] =
            inside ? widened(p.pack.numbers[j]) : W{0};
    }
  }

  GANTRAIN_BOTH void compute(const Tile& tile, int thread, Shared& shared) const {
    const int run = thread % kRuns, group = thread / kRuns % kGroups;
    const int plane = thread / (kRuns * kGroups);
    const int x = tile.x + run * kRun, y = tile.y + group * kRowsEach;
    if (tile.plane + plane >= planes || x >= how.along_x.out + start_x.skipped ||
        y >= how.along_y.out + start_y.skipped)
      return;
    const W* in = shared.in + (plane * kInRows + group * kRowStep) * kRowStride + run * (kStep + 1);
    W sums[kRowsEach][kRun] = {};
#pragma unroll
    for (int i = 0; i < Y::inputs(kRowsEach); ++i) {
      W window[X::inputs(kRun)];
#pragma unroll
      for (int c = 0; c < X::inputs(kRun); ++c) window[c] = in[i * kRowStride + with_gaps(c)];
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r)
        if (Y::has_tap(i, r)) add_row(window, shared.taps + Y::tap(i, r) * X::kTaps, sums[r]);
    }
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      Pack<T> pack;
#pragma unroll
      for (int k = 0; k < kRun; ++k) pack.numbers[k] = rounded<T>(sums[r][k]);
      if (direct) {
        store_directly(tile.plane + plane, y + r - start_y.skipped, x, pack);
      } else {
        T* to = shared.out + (plane * kRows + group * kRowsEach + r) * kOutStride;
#pragma unroll
        for (int k = 0; k < kRun; ++k) to[staged(run * kRun) + k] = pack.numbers[k];
      }
    }
  }

  GANTRAIN_BOTH static void add_row(const W* window, const W* taps, W* sums) {
#pragma unroll
    for (int c = 0; c < X::inputs(kRun); ++c)
#pragma unroll
      for (int k = 0; k < kRun; ++k)
        if (X::has_tap(c, k)) sums[k] += taps[X::tap(c, k)] * window[c];
  }

  GANTRAIN_BOTH void store_directly(int64_t plane, int y, int x, const Pack<T>& pack) const {
    if (!is_below(y, how.along_y.out)) return;
    const int64_t index = (plane * how.along_y.out + y) * how.along_x.out + x;
    store_pack(static_cast<T*>(how.out) + index, pack);
  }

  GANTRAIN_BOTH void store_staged(const Tile& tile, int thread, const Shared& shared) const {
    constexpr int kPacks = packs_over(kColumns);
    const int first_x = tile.x - start_x.skipped;
    for (int i = thread; i < kPlanes * kRows * kPacks; i += kThreads) {
      const int row = i / kPacks, y = tile.y + row % kRows - start_y.skipped;
      const int64_t plane = tile.plane + row / kRows;
      if (plane >= planes || !is_below(y, how.along_y.out)) continue;
      const int64_t begin = (plane * how.along_y.out + y) * how.along_x.out + first_x;
      const auto shift = static_cast<int>((begin + out_misaligned) & (kRun - 1));
      const int column = i % kPacks * kRun - shift;
      Pack<T> pack;
      bool whole = true;
#pragma unroll
      for (int j = 0; j < kRun; ++j) {
        const bool inside =
            is_below(column + j, kColumns) && is_below(first_x + column + j, how.along_x.out);
        if (inside) pack.numbers[j] = shared.out[row * kOutStride + staged(column + j)];
        whole = whole && inside;
      }
      T* to = static_cast<T*>(how.out) + begin + column;
      if (whole) {
        store_pack(to, pack);
        continue;
      }
#pragma unroll
      for (int j = 0; j < kRun; ++j)
        if (is_below(column + j, kColumns) && is_below(first_x + column + j, how.along_x.out))
          to[j] = pack.numbers[j];
    }
  }
};

template <class T, class Shape, bool kSmall>
bool try_shape(const UpFirDnArguments& how, const FirLaunch& launching) {
  return Shape::fits(how) && try_body<PlanesBody<T, Shape, kSmall>>(how, launching);
}

template <class T, bool kSmall>
bool try_four_taps(const UpFirDnArguments& how, const FirLaunch& launching) {
  return try_shape<T, FourTaps<1, 1>, kSmall>(how, launching) ||
         try_shape<T, FourTaps<2, 1>, kSmall>(how, launching) ||
         try_shape<T, FourTaps<1, 2>, kSmall>(how, launching);
}

// The passes of adaptive augmentation, over float32 images.
bool try_twelve_taps(const UpFirDnArguments& how, const FirLaunch& launching) {
  using Up = AxisShape<2, 1, 12>;
  using Down = AxisShape<1, 2, 12>;
  return try_shape<float, FirShape<OneTap, Up>, false>(how, launching) ||
         try_shape<float, FirShape<Up, OneTap>, false>(how, launching) ||
         try_shape<float, FirShape<OneTap, Down>, false>(how, launching) ||
         try_shape<float, FirShape<Down, OneTap>, false>(how, launching);
}

}  // namespace

bool planes_store_directly(const UpFirDnArguments& how) {
  const auto address = reinterpret_cast<uintptr_t>(how.out);
  const int64_t row_bytes = how.along_x.out * (how.type == Type::kFloat32 ? 4 : 2);
  return address % 16 == 0 && row_bytes % 16 == 0 && AxisStart(how.along_x).skipped == 0;
}

bool upfirdn2d_planes(const UpFirDnArguments& how, bool small, const FirLaunch& launching) {
  bool launched = false;
  with_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      launched =
          small ? try_four_taps<T, true>(how, launching) : try_four_taps<T, false>(how, launching);
    }
    if constexpr (std::is_same_v<T, float>)
      launched = launched || (!small && try_twelve_taps(how, launching));
  });
  return launched;
}

}  // namespace gantrain::cuda_kernels
