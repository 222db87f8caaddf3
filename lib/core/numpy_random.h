// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace gantrain {

// numpy's legacy generator numpy.random.RandomState(seed): MT19937 (Matsumoto & Nishimura 1998),
// doubles of 53 bits, and normals in pairs by Marsaglia's polar method. numpy has frozen its
// streams for good, so the latent of a seed is the same as in other tools.
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
