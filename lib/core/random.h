// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gantrain {

// One named stream of random numbers, counter-based (Philox 4x32-10, Salmon et al. 2011): a draw
// is a pure function of (seed, purpose, iteration, phase, sample, element). There is no state, so
// nothing to save, and no draw depends on how many ranks, threads or calls there are.
class Stream {
 public:
  // `purpose` names the use ("z", "flip", "init/G/main.0.weight"); `iteration` counts iterations of
  // training, or passes, or nothing; `phase` tells phases of one iteration apart where they must
  // not share their draws.
  Stream(uint64_t seed, std::string_view purpose, uint64_t iteration = 0, uint64_t phase = 0);

  // Element `element` of `sample`'s draws: 32 random bits, or a double in [0, 1) of 32 bits.
  uint32_t bits(uint64_t sample, uint32_t element) const;
  double uniform(uint64_t sample, uint32_t element) const;

  // Whole number in [0, bound); bound at least 1. Bias below 2^-32.
  uint64_t below(uint64_t bound, uint64_t sample, uint32_t element = 0) const;

  // Fills out[0..count) with sample's elements 0..count: uniform [0, 1), standard normal
  // (Box-Muller on pairs of elements).
  void uniform(float* out, int64_t count, uint64_t sample) const;
  void normal(float* out, int64_t count, uint64_t sample) const;

  // Permutation of 0..count-1 (Fisher-Yates).
  std::vector<int64_t> permutation(int64_t count) const;

 private:
  uint64_t key_;
};

}  // namespace gantrain
