// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Vectors of float32 of the instruction set that a source is compiled for: compilers' own vector
// types, whose operators work lane by lane.
namespace gantrain::GANTRAIN_ISA {

#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

using Vec = float __attribute__((vector_size(4 * kLanes)));
using IntVec = int32_t __attribute__((vector_size(4 * kLanes)));

inline Vec load(const float* from) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, Vec v) { std::memcpy(to, &v, sizeof v); }

// Subtracting zero leaves every number as it is, so that this is one broadcast.
inline Vec all(float value) { return value - Vec{}; }

// The first `count` lanes (0 to kLanes) of memory, and zeros after them; nothing behind is touched.
inline Vec load_some(const float* from, int64_t count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), from);
#elif defined(__AVX2__)
  const IntVec mask = IntVec{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(count);
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(mask));
#else
  Vec v{};
  for (int64_t i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}

// Stores the first `count` lanes (0 to kLanes).
inline void store_some(float* to, Vec v, int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1), v);
#elif defined(__AVX2__)
  const IntVec mask = IntVec{0, 1, 2, 3, 4, 5, 6, 7} < static_cast<int32_t>(count);
  _mm256_maskstore_ps(to, reinterpret_cast<__m256i>(mask), v);
#else
  for (int64_t i = 0; i < count; ++i) to[i] = v[i];
#endif
}

// The same for any number of lanes that are left of an array, more than there are and none too.
inline Vec load_within(const float* from, int64_t left) {
  return left >= kLanes ? load(from) : left > 0 ? load_some(from, left) : Vec{};
}
inline void store_within(float* to, Vec v, int64_t left) {
  if (left >= kLanes) {
    store(to, v);
  } else if (left > 0) {
    store_some(to, v, left);
  }
}

// How loops over arrays whose length is no multiple of a vector's reach their ends, and how they
// add up.

// Access to a whole vector of an array.
struct Whole {
  Vec get(const float* from) const { return load(from); }
  void put(float* to, Vec v) const { store(to, v); }
};

// Access to the first `count` lanes, count < kLanes; the others read as 0.
struct Part {
  int64_t count;

  Vec get(const float* from) const {
    Vec v{};
    std::memcpy(&v, from, static_cast<size_t>(count) * sizeof(float));
    return v;
  }
  void put(float* to, Vec v) const {
    std::memcpy(to, &v, static_cast<size_t>(count) * sizeof(float));
  }
};

inline Vec square_root(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int64_t i = 0; i < kLanes; ++i) lanes[i] = std::sqrt(lanes[i]);
  return load(lanes);
}

inline Vec magnitude(Vec v) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(v) & 0x7fffffff);
}

inline double sum_of_lanes(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

// A sum: float32 within a block, float64 beyond.
struct Sum {
  Vec lanes{};
  double total = 0;

  void done() {
    total += sum_of_lanes(lanes);
    lanes = Vec{};
  }
};

// Calls step(i, access) for each vector of an array of `count` floats, in order, and block_done()
// after each block of kBlock floats and at the end, where a Sum is told that it is done(): long
// sums stay exact.
constexpr int64_t kBlock = 4096;

template <class Step, class BlockDone>
inline void each_vector(int64_t count, const Step& step, const BlockDone& block_done) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) step(i, Whole{});
    if (i < end) step(i, Part{end - i});
    block_done();
  }
}

template <class Step>
inline void each_vector(int64_t count, const Step& step) {
  each_vector(count, step, [] {});
}

// Lanes in other places: of two vectors, of squares of vectors, and of values in memory that do not
// lie side by side.

inline constexpr auto kAllLanes = std::make_index_sequence<kLanes>();

// The lanes Place of two vectors put one after another. g++ has clang's name for it from 12 on;
// before, its own takes no pack as the mask's lanes.
template <int64_t... Place>
inline Vec lanes_at(Vec a, Vec b) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, Place...);
#else
  return __builtin_shuffle(a, b, IntVec{static_cast<int32_t>(Place)...});
#endif
}

// Every second lane of two vectors put one after another, from lane First on.
template <int64_t First, size_t... Lane>
inline Vec every_second(Vec a, Vec b, std::index_sequence<Lane...> /*lanes*/) {
  return lanes_at<(First + 2 * static_cast<int64_t>(Lane))...>(a, b);
}

// Lanes from the one and from the other by turns, from lane First of each on.
template <int64_t First, size_t... Lane>
inline Vec by_turns(Vec a, Vec b, std::index_sequence<Lane...> /*lanes*/) {
  return lanes_at<(First + static_cast<int64_t>(Lane) / 2 +
                   static_cast<int64_t>(Lane) % 2 * kLanes)...>(a, b);
}

// Lane i is the value i + Shift of three vectors side by side, counted from the middle one's first.
template <int64_t Shift, size_t... Lane>
inline Vec shifted_lanes(Vec before, Vec at, Vec after, std::index_sequence<Lane...> /*lanes*/) {
  if constexpr (Shift < 0) {
    return lanes_at<(kLanes + Shift + static_cast<int64_t>(Lane))...>(before, at);
  } else {
    return lanes_at<(Shift + static_cast<int64_t>(Lane))...>(at, after);
  }
}

// Three neighbours of a row of vectors.
struct Neighbours {
  Vec before, at, after;

  template <int64_t Shift>
  Vec shifted() const {
    if constexpr (Shift == 0) {
      return at;
    } else {
      return shifted_lanes<Shift>(before, at, after, kAllLanes);
    }
  }
  void step(Vec next) {
    before = at;
    at = after;
    after = next;
  }
};

// Exchanges, in the square of vectors, the blocks of Step lanes off the diagonal.
template <int64_t Step, size_t... Lane>
inline void exchange_blocks(Vec* r, std::index_sequence<Lane...> /*lanes*/) {
  for (int64_t i = 0; i < kLanes; ++i) {
    if ((i & Step) != 0) continue;
    const Vec low = r[i], high = r[i + Step];
    r[i] = lanes_at<((Lane & Step) == 0 ? Lane : kLanes + Lane - Step)...>(low, high);
    r[i + Step] = lanes_at<((Lane & Step) == 0 ? Lane + Step : kLanes + Lane)...>(low, high);
  }
}

// Transposes kLanes vectors.
inline void transpose(Vec* r) {
  exchange_blocks<1>(r, kAllLanes);
  exchange_blocks<2>(r, kAllLanes);
  if constexpr (kLanes > 4) exchange_blocks<4>(r, kAllLanes);
  if constexpr (kLanes > 8) exchange_blocks<8>(r, kAllLanes);
}

// Stores the lanes whose bits are set in `mask`, and touches nothing else.
inline void store_masked(float* to, Vec v, uint32_t mask) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), v);
#else
  for (int64_t i = 0; i < kLanes; ++i) {
    if (mask >> i & 1) to[i] = v[i];
  }
#endif
}

// Loads `count` values (1 to kLanes) that lie Step apart, 1 or 2. The lanes after them are zero,
// and no memory behind the last one is read.
template <int64_t Step>
inline Vec load_every(const float* from, int64_t count) {
  if constexpr (Step == 1) return load_within(from, count);
  const int64_t floats = 2 * count - 1;
  return every_second<0>(
      load_within(from, floats), load_within(from + kLanes, floats - kLanes), kAllLanes);
}

// Stores the first `count` lanes (1 to kLanes) Step apart, and leaves what lies between.
template <int64_t Step>
inline void store_every(float* to, Vec v, int64_t count) {
  if constexpr (Step == 1) {
    store_within(to, v, count);
  } else {
    const uint64_t mask = 0x5555555555555555U & ((uint64_t{1} << (2 * count - 1)) - 1);
    store_masked(to, by_turns<0>(v, v, kAllLanes), static_cast<uint32_t>(mask));
    if (count > kLanes / 2)
      store_masked(to + kLanes,
                   by_turns<kLanes / 2>(v, v, kAllLanes),
                   static_cast<uint32_t>(mask >> kLanes));
  }
}

}  // namespace gantrain::GANTRAIN_ISA
