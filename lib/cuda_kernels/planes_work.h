// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_kernels/planes_walk.h"

// Kernels that walk over feature maps: what their bodies do for each pack, and how they are
// launched.
namespace gantrain::cuda_kernels {

// What a thread does to each of its packs. A work is derived from this and has
//   struct Terms; Terms terms(int64_t sample, int64_t channel) const;  // of the first channel
//   template <class Sums>
//   void operator()(int64_t at, int64_t pixel, const Terms& terms, Sums& sums) const;
// where `at` is the pack's offset and `pixel` the first pixel. Sums is Number[kSums][kWidth], or
// NoSums.
template <class T, int kPackOfWork, Order kOrderOfWork, int kSumsOfWork>
struct WorkOf {
  using Element = T;
  using Number = Wide<T>;
  static constexpr int kPack = kPackOfWork;
  static constexpr Order kOrder = kOrderOfWork;
  static constexpr int kSums = kSumsOfWork;
  static constexpr int kWidth = kOrder == Order::kRows ? kPack : 1;   // channels of a pack
  static constexpr int kPixels = kOrder == Order::kRows ? 1 : kPack;  // pixels of a pack
};
struct NoSums {};

template <class Work>
struct MapsBody {
  static constexpr int kThreads = kWalkThreads;
  Walk<Work::kOrder> walk;
  Work work;

  GANTRAIN_BOTH void operator()(const Place& place) const {
    NoSums none;
    walk.visit(place, work, none);
  }
};

template <class Work>
struct SummingBody {
  static constexpr int kThreads = kWalkThreads;
  using Number = typename Work::Number;
  struct Shared {
    Number values[Work::kSums][kThreads * Work::kWidth];
  };
  struct Local {};
  Walk<Work::kOrder> walk;
  Work work;
  Number* parts[Work::kSums];  // null: nobody asks for that sum

  GANTRAIN_BOTH int steps() const { return 3; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local& /*local*/) const {
    if (number == 0) {
      Number sums[Work::kSums][Work::kWidth] = {};
      walk.visit(place, work, sums);
      for (int j = 0; j < Work::kSums; ++j) {
        for (int k = 0; k < Work::kWidth; ++k)
          shared.values[j][place.thread * Work::kWidth + k] = sums[j][k];
      }
      return;
    }
    for (int j = 0; j < Work::kSums; ++j) {
      if (parts[j] != nullptr) walk.fold(number, place, shared.values[j], parts[j]);
    }
  }
};

template <int kValue>
using Int = std::integral_constant<int, kValue>;
template <Order kValue>
using OrderTag = std::integral_constant<Order, kValue>;

// Calls use(Int<pack>{}, OrderTag<order>{}): 16-byte packs or single numbers.
template <class T, class Use>
void with_walk(const Maps& maps, bool packed, const Use& use) {
  using Full = Int<kPackSize<T>>;
  if (maps.order == Order::kPlanes) {
    packed ? use(Full{}, OrderTag<Order::kPlanes>{}) : use(Int<1>{}, OrderTag<Order::kPlanes>{});
  } else {
    packed ? use(Full{}, OrderTag<Order::kRows>{}) : use(Int<1>{}, OrderTag<Order::kRows>{});
  }
}

inline Parts parts_of(const Maps& maps, int pack) {
  return maps.order == Order::kPlanes ? PlanesWalk(maps, pack).parts()
                                      : RowsWalk(maps, pack).parts();
}

template <class Work>
void launch_work(const Maps& maps, const Work& work, Stream stream) {
  const Walk<Work::kOrder> walk(maps, Work::kPack);
  launch(MapsBody<Work>{walk, work}, walk.blocks(), stream);
}

// The same where the work's sums are wanted: Number[parts_of(maps, pack).count()] each, or null.
template <class Work, class... Sums>
void launch_summing(const Maps& maps, const Work& work, Stream stream, Sums*... sums) {
  using Number = typename Work::Number;
  const Walk<Work::kOrder> walk(maps, Work::kPack);
  launch(SummingBody<Work>{walk, work, {static_cast<Number*>(sums)...}}, walk.blocks(), stream);
}

// Loads kCount numbers by 16-byte accesses, or one number.
template <int kCount, class T>
GANTRAIN_BOTH void load_wide(const T* from, Wide<T> (&to)[kCount]) {
  constexpr int kPack = kCount < kPackSize<T> ? kCount : kPackSize<T>;
  for (int i = 0; i < kCount; i += kPack) {
    const Pack<T, kPack> pack = load_pack<T, kPack>(from + i);
    for (int k = 0; k < kPack; ++k) to[i + k] = widened(pack.numbers[k]);
  }
}
template <class T, int kCount>
GANTRAIN_BOTH void store_rounded(T* to, const Wide<T> (&from)[kCount]) {
  Pack<T, kCount> pack;
  for (int k = 0; k < kCount; ++k) pack.numbers[k] = rounded<T>(from[k]);
  store_pack(to, pack);
}

// The numbers of consecutive channels, from `first` on; the first channel follows the last one.
template <class T, int kCount>
GANTRAIN_BOTH void load_channels(const T* from,
                                 int64_t first,
                                 int64_t channels,
                                 Wide<T> (&to)[kCount]) {
  int64_t c = first;
  for (int k = 0; k < kCount; ++k) {
    to[k] = widened(from[c]);
    if (++c == channels) c = 0;
  }
}
template <class Number, int kCount>
GANTRAIN_BOTH void fill(Number (&to)[kCount], Number value) {
  for (int k = 0; k < kCount; ++k) to[k] = value;
}

}  // namespace gantrain::cuda_kernels
