// SPDX-License-Identifier: Apache-2.0
#include "core/numpy_random.h"

#include <cmath>

namespace gantrain {

namespace {

constexpr size_t kShift = 397;  // "m" of the paper's table

uint32_t twist(uint32_t high, uint32_t low) {
  const uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (mixed >> 1) ^ ((low & 1u) != 0 ? 0x9908b0dfu : 0u);
}

}  // namespace

NumpyRandom::NumpyRandom(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < state_.size(); ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

void NumpyRandom::refill() {
  const size_t n = state_.size();
  for (size_t i = 0; i < n; ++i) {
    state_[i] = state_[(i + kShift) % n] ^ twist(state_[i], state_[(i + 1) % n]);
  }
  position_ = 0;
}

uint32_t NumpyRandom::next_bits() {
  if (position_ == state_.size()) refill();
  uint32_t y = state_[position_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double NumpyRandom::random_sample() {
  const uint32_t high = next_bits() >> 5;  // 27 bits
  const uint32_t low = next_bits() >> 6;   // 26 bits
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

double NumpyRandom::gauss() {
  if (kept_) {
    const double value = *kept_;
    kept_.reset();
    return value;
  }
  double a = 0;
  double b = 0;
  double square = 0;
  do {  // a point in the unit disk, without its centre
    a = 2 * random_sample() - 1;
    b = 2 * random_sample() - 1;
    square = a * a + b * b;
  } while (square >= 1 || square == 0);
  const double scale = std::sqrt(-2 * std::log(square) / square);
  kept_ = scale * a;
  return scale * b;  // numpy hands out the second coordinate first
}

std::vector<double> NumpyRandom::randn(int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  for (double& value : out) value = gauss();
  return out;
}

}  // namespace gantrain
