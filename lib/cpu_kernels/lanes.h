// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "cpu_kernels/vector.h"

// How loops over arrays whose length is no multiple of a vector's reach their ends, and how they
// add up.
namespace gantrain::GANTRAIN_ISA {

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
  for (int64_t i = 0; i < kLanes; ++i) v[i] = std::sqrt(v[i]);
  return v;
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

}  // namespace gantrain::GANTRAIN_ISA
