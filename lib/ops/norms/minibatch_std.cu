// SPDX-License-Identifier: Apache-2.0
// Minibatch standard deviation. A cell is one part of the channels of one group; its numbers are
// shared out over chunks, a block each. A thread computes the deviations of a pack of neighbouring
// numbers over the group, copies them and adds them up; a second kernel merges the chunks' sums of
// each cell in their order and fills the cell's planes. The derivative first sums each cell's
// planes and then adds each number's share. A thread reads its numbers three times, twice from the
// first-level cache. On a GPU these tensors of 4 x 4 pixels take little more than the launches.
#include <cmath>

#include "ops/gpu/summed_axis.h"
#include "ops/norms/norms_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

constexpr int kBlock = 128;
constexpr int64_t kMostChunks = 1024;

// Sums a block's numbers in a fixed order: call step 1 and 2 after each thread has left its sum.
// The total is in the first.
GANTRAIN_BOTH void add_block(int step, int thread, float* sums) {
  const int kept = step == 1 ? 8 : 1, all = step == 1 ? kBlock : 8;
  if (thread >= kept) return;
  float sum = sums[thread];
  for (int i = thread + kept; i < all; i += kept) sum += sums[i];
  sums[thread] = sum;
}

// Where numbers lie. `run` numbers of a cell lie next to each other; from one run to the next is
// `stride`, or `out_stride` where the added channels are there too.
struct Cells {
  int g;
  int64_t groups, parts, pixels;
  int64_t length;  // of a cell, in each sample
  int64_t run, stride, out_stride;
  int64_t sample, out_sample;        // numbers of a sample
  int64_t map, map_part, map_pixel;  // where the added channels begin, and their strides
  AnyDivider by_parts, by_pixels;

  explicit Cells(const MinibatchStdArguments& a)
      : g(static_cast<int>(a.g)),
        groups(a.groups),
        parts(a.parts),
        pixels(a.pixels),
        length(a.length()),
        run(a.channels_last ? a.channels / a.parts : length),
        stride(a.channels_last ? a.channels : length),
        out_stride(a.channels_last ? a.channels + a.parts : length),
        sample(a.channels * a.pixels),
        out_sample((a.channels + a.parts) * a.pixels),
        map(a.channels_last ? a.channels : sample),
        map_part(a.channels_last ? 1 : a.pixels),
        map_pixel(a.channels_last ? a.channels + a.parts : 1),
        by_parts(a.parts, a.groups * a.parts),
        by_pixels(a.pixels == 0 ? 1 : a.pixels, a.g * a.pixels) {}

  int64_t count() const { return groups * parts; }
};

// Which cell a block works at: part `part` of the group whose first sample is `first`.
struct Cell {
  int64_t first, part;

  GANTRAIN_BOTH Cell(const Cells& cells, int64_t i)
      : first(cells.by_parts.quotient(i)), part(i - first * cells.parts) {}
  // Where number `p` of the cell's planes lies, the pixels of its samples one after another.
  GANTRAIN_BOTH int64_t on_map(const Cells& cells, int64_t p) const {
    const int64_t j = cells.by_pixels.quotient(p), pixel = p - j * cells.pixels;
    return (first + j * cells.groups) * cells.out_sample + cells.map + part * cells.map_part +
           pixel * cells.map_pixel;
  }
};

// Mean and variance over a group of a pack's numbers. The mean is mean + rest: where a group's
// numbers are nearly equal, a float32 mean alone is as far off as they are apart.
template <class T, int kPack>
struct GroupMoments {
  float mean[kPack], rest[kPack], variance[kPack];

  // `index` is that of the first sample's numbers, `step` leads to the next one's.
  GANTRAIN_BOTH GroupMoments(const void* x, int64_t index, int64_t step, int g) {
    const float share = 1 / static_cast<float>(g);
    sum(x, index, step, g, mean, [&](float number, int) { return number; });
    scale(mean, share);
    sum(x, index, step, g, rest, [&](float number, int k) { return number - mean[k]; });
    scale(rest, share);
    sum(x, index, step, g, variance, [&](float number, int k) {
      return centred(number, k) * centred(number, k);
    });
    scale(variance, share);
  }
  GANTRAIN_BOTH float centred(float number, int k) const { return (number - mean[k]) - rest[k]; }

 private:
  template <class Term>
  GANTRAIN_BOTH static void sum(
      const void* x, int64_t index, int64_t step, int g, float* sums, const Term& term) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) sums[k] = 0;
#pragma unroll 4
    for (int j = 0; j < g; ++j, index += step) {
      float numbers[kPack];
      load_wide<T, kPack>(x, index, numbers);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sums[k] += term(numbers[k], k);
    }
  }
  GANTRAIN_BOTH static void scale(float* numbers, float by) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) numbers[k] *= by;
  }
};

// How a cell's numbers are cut into chunks of packs.
struct Chunks {
  int64_t units, each;
  Divider count;  // of a cell
  AnyDivider by_run;

  Chunks(const Cells& cells, int pack)
      : units(cells.length / pack),
        each(units <= kBlock * kMostChunks ? kBlock : blocks_for(units, kMostChunks)),
        count(units == 0 ? 1 : blocks_for(units, each)),
        by_run(cells.run == 0 ? 1 : cells.run, cells.length) {}
};

// Calls work(index in x, index in out) of the packs of the group's first sample that are this
// thread's.
template <int kPack, class Work>
GANTRAIN_BOTH void each_pack(const Cells& cells,
                             const Chunks& chunks,
                             const Place& place,
                             const Work& work) {
  const int64_t i = chunks.count.quotient(static_cast<uint32_t>(place.block));
  const int64_t begin = (place.block - i * chunks.count.divisor) * chunks.each;
  const int64_t end = begin + chunks.each < chunks.units ? begin + chunks.each : chunks.units;
  const Cell cell(cells, i);
  for (int64_t unit = begin + place.thread; unit < end; unit += kBlock) {
    const int64_t number = unit * kPack, row = chunks.by_run.quotient(number);
    const int64_t at = cell.part * cells.run + number - row * cells.run;
    work(cell.first * cells.sample + at + row * cells.stride,
         cell.first * cells.out_sample + at + row * cells.out_stride);
  }
}

template <class T, int kPack>
GANTRAIN_BOTH void store_any(void* to, int64_t index, const float* numbers, bool as_pack) {
  if (as_pack) return store_rounded<T, kPack>(to, index, numbers);
#pragma unroll
  for (int k = 0; k < kPack; ++k) static_cast<T*>(to)[index + k] = rounded<T>(numbers[k]);
}
template <class T, int kPack>
GANTRAIN_BOTH void load_any(const void* from, int64_t index, float* numbers, bool as_pack) {
  if (as_pack) return load_wide<T, kPack>(from, index, numbers);
#pragma unroll
  for (int k = 0; k < kPack; ++k) numbers[k] = widened(static_cast<const T*>(from)[index + k]);
}

struct BlockSums {
  float sums[kBlock];
};

// Copies x and leaves each chunk's sum of deviations in how.work, [cells, chunks].
template <class T, int kPack>
struct MeasureBody {
  static constexpr int kThreads = kBlock;
  using Shared = BlockSums;
  struct Local {};

  MinibatchStdArguments how;
  Cells cells;
  Chunks chunks;
  bool out_packs;

  GANTRAIN_BOTH int steps() const { return 4; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 0)
      shared.sums[place.thread] = measured(place);
    else if (number < 3)
      add_block(number, place.thread, shared.sums);
    else if (place.thread == 0)
      how.work[place.block] = shared.sums[0];
  }

 private:
  GANTRAIN_BOTH float measured(const Place& place) const {
    float sum = 0;
    const int64_t step = cells.groups * cells.sample, out_step = cells.groups * cells.out_sample;
    each_pack<kPack>(cells, chunks, place, [&](int64_t index, int64_t out_index) {
      const GroupMoments<T, kPack> moments(how.x, index, step, cells.g);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum += sqrtf(moments.variance[k] + how.eps);
#pragma unroll 4
      for (int j = 0; j < cells.g; ++j, index += step, out_index += out_step) {
        float numbers[kPack];
        load_wide<T, kPack>(how.x, index, numbers);
        store_any<T, kPack>(how.out, out_index, numbers, out_packs);
      }
    });
    return sum;
  }
};

// Merges the chunks' sums and fills the added channels. A block a cell.
template <class T>
struct FillBody {
  static constexpr int kThreads = kBlock;
  using Shared = BlockSums;
  struct Local {};

  MinibatchStdArguments how;
  Cells cells;
  int64_t chunks;

  GANTRAIN_BOTH int steps() const { return 4; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 0) {
      float sum = 0;
      for (int64_t c = place.thread; c < chunks; c += kThreads)
        sum += how.work[place.block * chunks + c];
      shared.sums[place.thread] = sum;
    } else if (number < 3) {
      add_block(number, place.thread, shared.sums);
    } else {
      const Cell cell(cells, place.block);
      const T deviation = rounded<T>(shared.sums[0] / static_cast<float>(cells.length));
#pragma unroll 1
      for (int64_t p = place.thread; p < cells.g * cells.pixels; p += kThreads)
        static_cast<T*>(how.out)[cell.on_map(cells, p)] = deviation;
    }
  }
};

// Sums dout over each cell's planes, divides by the count of what was averaged, and leaves that in
// how.work, [cells]. A block a cell.
template <class T>
struct SumMapsBody {
  static constexpr int kThreads = kBlock;
  using Shared = BlockSums;
  struct Local {};

  MinibatchStdArguments how;
  Cells cells;

  GANTRAIN_BOTH int steps() const { return 4; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local&) const {
    if (number == 0) {
      const Cell cell(cells, place.block);
      float sum = 0;
#pragma unroll 1
      for (int64_t p = place.thread; p < cells.g * cells.pixels; p += kThreads)
        sum += widened(static_cast<const T*>(how.dout)[cell.on_map(cells, p)]);
      shared.sums[place.thread] = sum;
    } else if (number < 3) {
      add_block(number, place.thread, shared.sums);
    } else if (place.thread == 0) {
      how.work[place.block] = shared.sums[0] / static_cast<float>(cells.g * cells.length);
    }
  }
};

// dx = dout + (x - mean) / sqrt(variance + eps) * the cell's factor.
template <class T, int kPack>
struct SlopeBody {
  static constexpr int kThreads = kBlock;

  MinibatchStdArguments how;
  Cells cells;
  Chunks chunks;
  bool out_packs;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const float factor = how.work[chunks.count.quotient(static_cast<uint32_t>(place.block))];
    const int64_t step = cells.groups * cells.sample, out_step = cells.groups * cells.out_sample;
    each_pack<kPack>(cells, chunks, place, [&](int64_t index, int64_t out_index) {
      const GroupMoments<T, kPack> moments(how.x, index, step, cells.g);
      float slope[kPack];
#pragma unroll
      for (int k = 0; k < kPack; ++k) slope[k] = factor / sqrtf(moments.variance[k] + how.eps);
#pragma unroll 4
      for (int j = 0; j < cells.g; ++j, index += step, out_index += out_step) {
        float x[kPack], dx[kPack];
        load_wide<T, kPack>(how.x, index, x);
        load_any<T, kPack>(how.dout, out_index, dx, out_packs);
#pragma unroll
        for (int k = 0; k < kPack; ++k) dx[k] += moments.centred(x[k], k) * slope[k];
        store_rounded<T, kPack>(how.out, index, dx);
      }
    });
  }
};

template <class T, int kPack>
void launch_minibatch_std(const MinibatchStdArguments& how, Stream stream) {
  const Cells cells(how);
  const Chunks chunks(cells, kPack);
  const bool out_packs = packs(how).out;
  const int64_t blocks = cells.count() * chunks.count.divisor;
  if (how.dout == nullptr) {
    launch(MeasureBody<T, kPack>{how, cells, chunks, out_packs}, blocks, stream);
    launch(FillBody<T>{how, cells, chunks.count.divisor}, cells.count(), stream);
  } else {
    launch(SumMapsBody<T>{how, cells}, cells.count(), stream);
    launch(SlopeBody<T, kPack>{how, cells, chunks, out_packs}, blocks, stream);
  }
}

}  // namespace

MinibatchStdPacks packs(const MinibatchStdArguments& how) {
  const Cells cells(how);
  const int pack = pack_size(how.type);
  const void* like_x = how.dout == nullptr ? how.x : how.out;
  const void* like_out = how.dout == nullptr ? how.out : how.dout;
  const bool x = cells.run % pack == 0 && cells.stride % pack == 0 && cells.sample % pack == 0 &&
                 aligned_for_packs(how.x, like_x);
  const bool out = x && cells.out_stride % pack == 0 && cells.out_sample % pack == 0 &&
                   aligned_for_packs(like_out);
  return {x, out};
}

int64_t minibatch_std_work(const MinibatchStdArguments& how) {
  const int64_t most = blocks_for(how.length(), kBlock);
  return how.groups * how.parts * (most < kMostChunks ? most + 1 : kMostChunks);
}

void minibatch_std(const MinibatchStdArguments& how, Stream stream) {
  with_type(how.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      if (packs(how).x)
        launch_minibatch_std<T, kPackSize<T>>(how, stream);
      else
        launch_minibatch_std<T, 1>(how, stream);
    }
  });
}

}  // namespace gantrain::cuda_kernels
