// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/gpu/launch.h"

// How kernels walk over feature maps whose terms (a bias, a demodulation factor) belong to channels
// and whose sums go to channels. There are two walks, one for each order of memory. In both of them
// neighbouring threads access neighbouring packs, and a thread stays with its channels, so that it
// reads their terms once and keeps their sums in registers. How the work is cut depends on shapes
// alone, never on the device: sums are the same everywhere.
namespace gantrain::cuda_kernels {

// kPlanes: [samples, channels, pixels] in memory; kRows: [samples, pixels, channels].
enum class Order { kPlanes, kRows };
struct Maps {
  Order order;
  int64_t samples, channels, pixels;

  int64_t count() const { return samples * channels * pixels; }
};

// Partial sums, one for each part of each sample's channel: [samples, channels, parts] in memory
// for kPlanes, [samples, parts, channels] for kRows.
struct Parts {
  Order order;
  int64_t samples, channels, parts;

  int64_t count() const { return samples * channels * parts; }
};

// How many columns of a kRows map are one row of packs: C * repeat is a multiple of the pack.
inline int64_t repeat_of(int64_t channels, int pack) {
  int64_t a = channels, b = pack;
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return pack / a;
}

// Whether packs of that size cover the maps and each lies in one plane or in one row. Maps with few
// channels in kRows, like pictures, are taken as shorter maps of longer rows, unless each pixel has
// a term of its own.
inline bool packs_fit(const Maps& maps, int pack, bool terms_of_pixels) {
  if (maps.order == Order::kPlanes) return maps.pixels % pack == 0;
  const int64_t repeat = repeat_of(maps.channels, pack);
  return repeat == 1 || (!terms_of_pixels && maps.pixels % repeat == 0);
}

// Divides whole numbers below 2^53; those below 2^31 faster. A division of 64-bit numbers would be
// a call of a function, which costs registers.
struct LongDivider {
  Divider fast;
  int64_t divisor = 1;
  double inverse = 1;

  LongDivider() = default;
  explicit LongDivider(int64_t by)
      : fast(by < kLimit ? by : 1), divisor(by), inverse(1 / static_cast<double>(by)) {}
  GANTRAIN_BOTH int64_t quotient(int64_t n) const {
    if (n < kLimit && divisor < kLimit) return fast.quotient(static_cast<uint32_t>(n));
    // The product is rounded, so that the quotient may be wrong by one.
    const auto q = static_cast<int64_t>(static_cast<double>(n) * inverse);
    const int64_t rest = n - q * divisor;
    return rest < 0 ? q - 1 : rest >= divisor ? q + 1 : q;
  }

 private:
  static constexpr int64_t kLimit = int64_t{1} << 31;
};

inline constexpr int kWalkThreads = 256;
inline constexpr int kFolded = 16;  // numbers that one thread adds up in one step

// How many packs a thread visits: as many as leave some thousand blocks, which fill any GPU.
inline int64_t visits_of(int64_t packs) {
  constexpr int64_t kBlocks = 2048, kMost = 32;
  const int64_t visits = packs / (kWalkThreads * kBlocks);
  return visits < 1 ? 1 : visits > kMost ? kMost : visits;
}

// A group of threads visits a part of a plane. Groups are as small as planes, so that small planes
// share a block.
class PlanesWalk {
 public:
  PlanesWalk(const Maps& maps, int pack)
      : maps_(maps), length_(maps.pixels / pack), channels_(maps.channels) {
    const int64_t visits = visits_of(maps.count() / pack), line = 8;
    while (group() < kWalkThreads && group() < length_ &&
           (group() < line || group() * visits < length_))
      ++group_bits_;
    each_ = group() * visits;
    parts_ = LongDivider(blocks_for(length_, each_));
  }

  Parts parts() const { return {Order::kPlanes, maps_.samples, maps_.channels, parts_.divisor}; }
  int64_t blocks() const {
    return blocks_for(maps_.samples * maps_.channels * parts_.divisor, kWalkThreads >> group_bits_);
  }

  // Calls work(offset, pixel, terms, sums) for each pack of this thread.
  template <class Work, class Sums>
  GANTRAIN_BOTH void visit(const Place& place, const Work& work, Sums& sums) const {
    const int64_t run = run_of(place), plane = parts_.quotient(run);
    if (plane >= maps_.samples * maps_.channels) return;
    const int64_t sample = channels_.quotient(plane);
    const auto terms = work.terms(sample, plane - sample * maps_.channels);
    const int64_t begin = (run - plane * parts_.divisor) * each_;
    const int64_t end = begin + each_ < length_ ? begin + each_ : length_;
    // Counted in a part, whose numbers fit into 32 bits.
    const int count = static_cast<int>(end - begin);
    const int64_t pixel = begin * Work::kPack, at = plane * maps_.pixels + pixel;
    for (int i = lane_of(place); i < count; i += group())
      work(at + i * Work::kPack, pixel + i * Work::kPack, terms, sums);
  }

  // Adds the threads' sums up, values[thread], in two steps; the last one writes them.
  template <class Number>
  GANTRAIN_BOTH void fold(int step, const Place& place, Number* values, Number* to) const {
    const int lane = lane_of(place), stride = step == 1 ? 1 : kFolded;
    if (lane % kFolded != 0 || (step == 2 && lane != 0)) return;
    const int stop = step == 1 && lane + kFolded < group() ? lane + kFolded : group();
    Number sum = 0;
    for (int i = lane; i < stop; i += stride) sum += values[place.thread - lane + i];
    values[place.thread] = sum;
    const int64_t run = run_of(place);
    if (step == 2 && run < maps_.samples * maps_.channels * parts_.divisor) to[run] = sum;
  }

 private:
  GANTRAIN_BOTH int group() const { return 1 << group_bits_; }
  GANTRAIN_BOTH int lane_of(const Place& place) const { return place.thread & (group() - 1); }
  GANTRAIN_BOTH int64_t run_of(const Place& place) const {
    return place.global(kWalkThreads) >> group_bits_;
  }

  Maps maps_;
  int64_t length_;  // of a plane, in packs
  LongDivider channels_, parts_;
  int group_bits_ = 0;
  int64_t each_ = 1;  // packs of a part
};

// A block visits some rows of a sample: its threads lie over whole rows, each with a pack of
// channels, and go down from row to row together. Rows of more than 256 packs are cut into tiles.
class RowsWalk {
 public:
  RowsWalk(const Maps& maps, int pack) : maps_(maps), pack_(pack) {
    repeat_ = static_cast<int>(repeat_of(maps.channels, pack));
    rows_ = maps.pixels / repeat_;
    columns_ = maps.channels * repeat_ / pack;
    width_ = static_cast<int>(columns_ < kWalkThreads ? columns_ : kWalkThreads);
    height_ = kWalkThreads / width_;
    stride_ = height_ * columns_ * pack;
    each_ = height_ * visits_of(maps.count() / pack);
    parts_ = LongDivider(blocks_for(rows_, each_));
    tiles_ = LongDivider(blocks_for(columns_, width_));
  }

  Parts parts() const {
    return {Order::kRows, maps_.samples, maps_.channels, parts_.divisor * repeat_};
  }
  int64_t blocks() const { return maps_.samples * parts_.divisor * tiles_.divisor; }

  template <class Work, class Sums>
  GANTRAIN_BOTH void visit(const Place& place, const Work& work, Sums& sums) const {
    const int64_t part = tiles_.quotient(place.block), sample = parts_.quotient(part);
    const int lane = place.thread / width_;
    const int64_t column = (place.block - part * tiles_.divisor) * width_ + place.thread % width_;
    if (lane >= height_ || column >= columns_) return;
    const auto channel = static_cast<uint32_t>(column * pack_);
    const auto terms = work.terms(sample, channel % static_cast<uint32_t>(maps_.channels));
    const int64_t begin = (part - sample * parts_.divisor) * each_;
    const int64_t end = begin + each_ < rows_ ? begin + each_ : rows_;
    int64_t at = ((sample * rows_ + begin + lane) * columns_ + column) * Work::kPack;
    for (int64_t row = begin + lane; row < end; row += height_, at += stride_)
      work(at, row, terms, sums);
  }

  // Adds the threads' sums of each channel up, values[thread * pack + channel]: first, as many
  // threads as there are share the rows of a channel out, then one adds up what they found.
  template <class Number>
  GANTRAIN_BOTH void fold(int step, const Place& place, Number* values, Number* to) const {
    const int channels = width_ * pack_;
    const int sharing = channels < kWalkThreads ? kWalkThreads / channels : 1;
    const int share = place.thread / channels;
    if (step == 1) {
      if (share >= sharing) return;
      for (int i = place.thread; i < channels * (share + 1); i += kWalkThreads) {
        Number sum = 0;
        for (int k = i; k < channels * height_; k += channels * sharing) sum += values[k];
        values[i] = sum;
      }
      return;
    }
    const int64_t part = tiles_.quotient(place.block);
    const int64_t first = (place.block - part * tiles_.divisor) * channels;
    for (int i = place.thread; i < channels; i += kWalkThreads) {
      Number sum = 0;
      for (int k = i; k < channels * sharing; k += channels) sum += values[k];
      if (first + i < columns_ * pack_) to[part * columns_ * pack_ + first + i] = sum;
    }
  }

 private:
  Maps maps_;
  int pack_, repeat_;
  int64_t rows_, columns_;  // columns in packs
  int width_, height_;      // of a block
  int64_t stride_;          // numbers from a thread's row to its next one
  int64_t each_;            // rows of a part
  LongDivider parts_, tiles_;
};

template <Order kOrder>
using Walk = std::conditional_t<kOrder == Order::kPlanes, PlanesWalk, RowsWalk>;

// factor * the sums of parts[...] (of type Wide) over the parts: out [samples, channels] or, where
// over_samples, [channels], of type `type`.
struct PartsSum {
  Type type;
  Parts shape;
  bool over_samples;
  double factor;
  const void* parts;
  void* out;
};
void sum_parts(const PartsSum& how, Stream stream);

// Several sums of one type, which do not need each other, in one launch.
struct PartsSums {
  static constexpr int kMost = 4;
  PartsSum all[kMost] = {};
  int count = 0;

  void add(const PartsSum& how) { all[count++] = how; }
};
void sum_all_parts(const PartsSums& how, Stream stream);

// Kernels that walk over feature maps: what their bodies do for each pack, and how they are
// launched.
//
// What a thread does to each of its packs. A work is derived from this and has
//   struct Terms; Terms terms(int64_t sample, int64_t channel) const;  // of the first channel
//   template <class Sums>
//   void operator()(int64_t at, int64_t pixel, const Terms& terms, Sums& sums) const;
// where `at` is the pack's offset and `pixel` the first pixel. Sums is Number[kSums][kWidth], or
// NoSums.
template <class T, int kPackOfWork, Order kOrderOfWork, int kSumsOfWork>
struct WorkOf {
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
