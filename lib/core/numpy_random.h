// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gantrain {

// numpy's legacy generator, numpy.random.RandomState(seed): MT19937 (Matsumoto & Nishimura 1998),
// doubles of 53 bits, normals by Marsaglia's polar method in pairs. Its streams are frozen by numpy
// for good, so the latent of seed s is the one that other tools draw.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed);

  // Uniform in [0, 1): numpy's random_sample().
  double random_sample();
  // Standard normal; the second of each pair is kept for the next call.
  double gauss();
  // `count` draws of gauss(): numpy's randn(count), or randn(a, b) in row-major order.
  std::vector<double> randn(int64_t count);

 private:
  uint32_t next_bits();
  void refill();

  std::array<uint32_t, 624> state_;
  size_t position_ = 624;
  std::optional<double> kept_;
};

}  // namespace gantrain
