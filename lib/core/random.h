// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gantrain {

// One named stream of random numbers, counter-based (Philox 4x32-10, Salmon et al. 2011): a draw is
// a pure function of (seed, purpose, iteration, phase, sample, element), so that there is no state
// to save, and ranks, threads and calls change nothing.
class Stream {
 public:
  // `purpose` is "z", "flip", "init/G/main.0.weight". `iteration` is one of training or a pass over
  // the data. `phase` differs between phases of an iteration that must not share their draws.
  Stream(uint64_t seed, std::string_view purpose, uint64_t iteration = 0, uint64_t phase = 0);

  // Return element `element` of the draws of `sample`: 32 random bits, or a double in [0, 1) of 32
  // bits.
  uint32_t bits(uint64_t sample, uint32_t element) const;
  double uniform(uint64_t sample, uint32_t element) const;

  // Returns a whole number in [0, bound); bound is at least 1. The bias is below 2^-32.
  uint64_t below(uint64_t bound, uint64_t sample, uint32_t element = 0) const;

  // Fill out[0..count) with elements 0 to count - 1 of the sample: uniform in [0, 1), or standard
  // normal (Box-Muller on pairs of elements).
  void uniform(float* out, int64_t count, uint64_t sample) const;
  void normal(float* out, int64_t count, uint64_t sample) const;

  // Returns a random permutation of 0 to count - 1 (Fisher-Yates).
  std::vector<int64_t> permutation(int64_t count) const;
  // Returns where `i` of 0 to count - 1 goes in another random permutation, which needs no memory:
  // a Feistel network of six rounds (Luby & Rackoff 1988) over the next power of four, walked until
  // it comes to a number below `count` (Black & Rogaway 2002).
  int64_t permuted(int64_t i, int64_t count) const;

 private:
  uint64_t key_;
};

// numpy.random.RandomState(seed), whose streams numpy has frozen, so that the latent of a seed is
// that of other tools: MT19937 (Matsumoto & Nishimura 1998), doubles of 53 bits, and normals in
// pairs by Marsaglia's polar method.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed);

  // Draws a number that is uniform in [0, 1): numpy's random_sample().
  double random_sample();
  // Draws from N(0, 1). The second number of each pair is kept for the next call.
  double gauss();
  // Makes `count` draws of gauss(): numpy's randn(count), or randn(a, b) in row-major order.
  std::vector<double> randn(int64_t count);

 private:
  uint32_t next_bits();
  void refill();

  std::array<uint32_t, 624> state_;
  size_t position_ = 624;
  std::optional<double> kept_;
};

}  // namespace gantrain
