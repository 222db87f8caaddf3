// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/gpu/planes_walk.h"
#include "support/catch.h"

// Kernels on maps of 3 x 2^31 numbers, of which only the first and the last sample hold anything
// and only the blocks at both ends run (ops/gpu/launch.h), against the same two samples alone.
// Memory that nobody touches takes none.
namespace gantrain::cuda_kernels {

inline constexpr int64_t kLargest = 3 * (int64_t{1} << 31);

// Zeros.
class SparseMemory {
 public:
  explicit SparseMemory(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    begin_ = mmap(nullptr,
                  bytes_,
                  PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1,
                  0);
    if (begin_ == MAP_FAILED) throw std::bad_alloc();
  }
  SparseMemory(SparseMemory&& other) noexcept
      : begin_(std::exchange(other.begin_, MAP_FAILED)), bytes_(other.bytes_) {}
  SparseMemory& operator=(SparseMemory&&) = delete;
  ~SparseMemory() {
    if (begin_ != MAP_FAILED) munmap(begin_, bytes_);
  }
  char* begin() const { return static_cast<char*>(begin_); }

 private:
  void* begin_;
  size_t bytes_;
};

enum class NumberKind { kHalves, kFloats, kDoubles, kBytes };

inline int64_t bytes_of(NumberKind kind) {
  return kind == NumberKind::kHalves    ? 2
         : kind == NumberKind::kFloats  ? 4
         : kind == NumberKind::kDoubles ? 8
                                        : 1;
}

// An array with so many numbers for each sample. Given ones are random in both samples.
struct LargeArray {
  NumberKind kind;
  int64_t each;
  bool given;
  double tolerance = 0.004;  // of a result; negative: it is not compared
};

// The arrays of a call with so many samples, in the order in which they were declared.
struct LargeCall {
  int64_t samples;
  std::vector<SparseMemory> memory;

  template <class T = void>
  T* at(size_t i) const {
    return reinterpret_cast<T*>(memory[i].begin());
  }
};

inline double number_at(NumberKind kind, const char* at) {
  switch (kind) {
    case NumberKind::kHalves:
      return widened(*reinterpret_cast<const Half*>(at));
    case NumberKind::kFloats:
      return *reinterpret_cast<const float*>(at);
    case NumberKind::kDoubles:
      return *reinterpret_cast<const double*>(at);
    case NumberKind::kBytes:
      return *reinterpret_cast<const unsigned char*>(at);
  }
  return 0;
}

inline void put(NumberKind kind, char* at, double number) {
  if (kind == NumberKind::kHalves)
    *reinterpret_cast<Half*>(at) = rounded<Half>(static_cast<float>(number));
  if (kind == NumberKind::kFloats) *reinterpret_cast<float*>(at) = static_cast<float>(number);
  if (kind == NumberKind::kDoubles) *reinterpret_cast<double*>(at) = number;
}

inline LargeCall call_with(int64_t samples, const std::vector<LargeArray>& arrays) {
  std::mt19937 random(7);
  LargeCall call{samples, {}};
  for (const LargeArray& array : arrays) {
    const int64_t size = bytes_of(array.kind);
    call.memory.emplace_back(samples * array.each * size);
    if (!array.given) continue;
    for (const int64_t sample : {int64_t{0}, samples - 1}) {
      char* at = call.memory.back().begin() + sample * array.each * size;
      for (int64_t i = 0; i < array.each; ++i, at += size)
        put(array.kind, at, (random() % 4096) / 1024.0 - 2);
    }
  }
  return call;
}

struct EndsOnly {
  explicit EndsOnly(int64_t samples) { host_samples = samples; }
  ~EndsOnly() { host_samples = 0; }
};

// How many numbers of a result are not those of the small call, in both samples; -1 where all of
// the small call's are 0.
inline int64_t wrong_numbers(const LargeArray& array,
                             const LargeCall& large,
                             const LargeCall& small,
                             size_t i) {
  const int64_t size = bytes_of(array.kind);
  int64_t wrong = 0, zeros = 0;
  for (const bool last : {false, true}) {
    const auto begin = [&](const LargeCall& call) {
      return call.memory[i].begin() + (last ? call.samples - 1 : 0) * array.each * size;
    };
    const char *found = begin(large), *expected = begin(small);
    for (int64_t k = 0; k < array.each; ++k, found += size, expected += size) {
      const double number = number_at(array.kind, expected);
      zeros += number == 0 ? 1 : 0;
      const double error = std::fabs(number_at(array.kind, found) - number);
      wrong += error <= array.tolerance * (1 + std::fabs(number)) ? 0 : 1;
    }
  }
  return zeros == 2 * array.each ? -1 : wrong;
}

// Runs a kernel on both calls. `cells` of the large one lie one after another in its blocks.
inline void check_both_ends(const std::string& name,
                            const std::vector<LargeArray>& arrays,
                            const std::function<void(const LargeCall&)>& run,
                            int64_t apart = 1,
                            int64_t fewest = 2) {
  int64_t most = 0;
  for (const LargeArray& array : arrays) most = std::max(most, array.each);
  const int64_t samples = blocks_for(kLargest, most * apart) * apart;
  const LargeCall large = call_with(samples, arrays), small = call_with(fewest, arrays);
  {
    const EndsOnly at_ends(samples / apart);
    run(large);
  }
  run(small);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].given || arrays[i].tolerance < 0) continue;
    CAPTURE(name, i, samples);
    CHECK(wrong_numbers(arrays[i], large, small, i) == 0);
  }
}

struct LargeShape {
  Order order;
  int64_t channels;
  int side;

  int64_t each() const { return channels * side * side; }
  Maps maps(int64_t samples) const {
    return {order, samples, channels, static_cast<int64_t>(side) * side};
  }
};

// Packs over real shapes, single numbers over odd ones.
inline const std::vector<LargeShape> kLargeShapes = {{Order::kRows, 64, 256},
                                                     {Order::kPlanes, 64, 64},
                                                     {Order::kRows, 5, 33},
                                                     {Order::kPlanes, 5, 33}};

inline LargeArray halves(int64_t each, bool given) { return {NumberKind::kHalves, each, given}; }
inline LargeArray floats(int64_t each, bool given) { return {NumberKind::kFloats, each, given}; }

}  // namespace gantrain::cuda_kernels
