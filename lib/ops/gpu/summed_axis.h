// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/gpu/launch.h"
#include "ops/norms/norms_gpu.h"

// How kernels sum along an axis of a tensor and come back to what they summed. The axis is either
// the last in memory ("along": packs lie along the axis) or one before others ("across": packs lie
// across it, and each number of a pack has a sum of its own). A block has items x slices threads.
// An item is a row that is summed, or a pack of neighbouring ones; its slices share out the axis.
// Neighbouring threads access neighbouring packs in both cases. How work is cut depends on shapes
// alone, never on the device, so that sums are the same everywhere.
namespace gantrain::cuda_kernels {

template <int kPack, bool kAcross>
struct NormWalk {
  static constexpr int kThreads = 256;
  static constexpr int kSums = kAcross ? kPack : 1;  // of an item

  int64_t outer, length, inner;
  int64_t items;  // of the tensor
  int64_t units;  // accesses along the axis: numbers across, packs along
  int64_t chunk;  // units that a block sums
  int slices_log2;
  Divider chunks;    // of the axis
  AnyDivider packs;  // of `inner`

  NormWalk(const SummedAxis& axis, int64_t most_chunks)
      : outer(axis.outer), length(axis.length), inner(axis.inner) {
    const int64_t inner_packs = kAcross ? inner / kPack : 1;
    items = outer * inner_packs;
    units = kAcross ? length : length / kPack;
    // At least 4 units for each slice, if that many neighbours are there to fill the block with.
    slices_log2 = 0;
    while (slices_log2 < (kAcross ? 5 : 8) && units >> slices_log2 >= 8) ++slices_log2;
    if (kAcross)
      while (slices_log2 < 8 && kThreads >> slices_log2 > inner_packs) ++slices_log2;
    const int64_t least = int64_t{16} << slices_log2;
    chunk = most_chunks == 1 ? units : least;
    if (blocks_for(units, chunk) > most_chunks) chunk = blocks_for(units, most_chunks);
    chunks = Divider(units == 0 ? 1 : blocks_for(units, chunk));
    packs = AnyDivider(inner_packs == 0 ? 1 : inner_packs, items);
  }

  int64_t blocks() const { return blocks_for(items, block_items()) * chunks.divisor; }
  GANTRAIN_BOTH int block_items() const { return kThreads >> slices_log2; }
  GANTRAIN_BOTH int64_t sums() const { return items * kSums; }

  // A thread's item and its units [begin, end), every `step`-th of them.
  struct Part {
    int64_t item;
    int64_t chunk;
    int64_t first;  // number of the item in memory
    int64_t begin, end, step;
    int block_item, slice;
  };
  GANTRAIN_BOTH Part part(const Place& place) const {
    Part p;
    const auto block = static_cast<uint32_t>(place.block);
    const int64_t group = chunks.quotient(block);
    p.chunk = static_cast<int64_t>(block) - group * chunks.divisor;
    p.step = int64_t{1} << slices_log2;
    if constexpr (kAcross) {
      p.block_item = place.thread & (block_items() - 1);
      p.slice = place.thread / block_items();
    } else {
      p.slice = place.thread & static_cast<int>(p.step - 1);
      p.block_item = place.thread >> slices_log2;
    }
    p.item = group * block_items() + p.block_item;
    const int64_t row = kAcross ? packs.quotient(p.item) : p.item;
    p.first = row * length * inner + (p.item - row * packs.divisor) * kPack * (kAcross ? 1 : 0);
    p.begin = p.chunk * chunk + p.slice;
    p.end = p.chunk * chunk + chunk < units ? p.chunk * chunk + chunk : units;
    if (p.item >= items) p.end = 0;
    return p;
  }
  // Calls work(index in memory of a pack) for the units of a part.
  template <class Work>
  GANTRAIN_BOTH void each(const Part& p, const Work& work) const {
    const int64_t stride = kAcross ? inner : kPack;
    int64_t index = p.first + p.begin * stride;
    for (int64_t unit = p.begin; unit < p.end; unit += p.step, index += p.step * stride)
      work(index);
  }

  // Where a thread leaves its sums in shared memory, and where those of its item are in the end.
  GANTRAIN_BOTH int place_of(const Part& p) const {
    return (p.slice * block_items() + p.block_item) * kSums;
  }
  GANTRAIN_BOTH int total_of(const Part& p) const { return p.block_item * kSums; }

  // Two steps, with a barrier before each, merge the slices' sums of all items in a fixed order:
  // to at most 16 of each item, then to one.
  template <class Sum>
  GANTRAIN_BOTH void merge(int stage, int thread, Sum* sums) const {
    const int width = block_items() * kSums;
    const int some = slices_log2 > 4 ? width << 4 : width << slices_log2;
    const int kept = stage == 0 ? some : width, all = stage == 0 ? kThreads * kSums : some;
    for (int i = thread; i < kept; i += kThreads) {
      Sum sum = sums[i];
      for (int j = i + kept; j < all; j += kept) sum.merge(sums[j]);
      sums[i] = sum;
    }
  }
};

template <class T, int kPack>
GANTRAIN_BOTH void load_wide(const void* from, int64_t index, float* numbers) {
  const Pack<T, kPack> pack = load_pack<T, kPack>(static_cast<const T*>(from) + index);
#pragma unroll
  for (int j = 0; j < kPack; ++j) numbers[j] = widened(pack.numbers[j]);
}
template <class T, int kPack>
GANTRAIN_BOTH void store_rounded(void* to, int64_t index, const float* numbers) {
  Pack<T, kPack> pack;
#pragma unroll
  for (int j = 0; j < kPack; ++j) pack.numbers[j] = rounded<T>(numbers[j]);
  store_pack(static_cast<T*>(to) + index, pack);
}

// Calls work(TypeTag<T>{}, pack, across), the latter two as integral constants, for float32 and the
// half types.
template <class Work>
void with_walk(Type type, const SummedAxis& axis, bool packs, Work&& work) {
  with_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, double>) {
      const auto with_pack = [&](auto pack) {
        if (axis.along())
          work(tag, pack, std::false_type{});
        else
          work(tag, pack, std::true_type{});
      };
      if (packs)
        with_pack(std::integral_constant<int, kPackSize<T>>{});
      else
        with_pack(std::integral_constant<int, 1>{});
    }
  });
}

}  // namespace gantrain::cuda_kernels
