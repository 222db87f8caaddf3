// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/philox.h"
#include "util/hash.h"

namespace gantrain {

Stream::Stream(uint64_t seed, std::string_view purpose, uint64_t iteration, uint64_t phase) {
  key_ = stream_key(hash64(purpose), seed, iteration, phase);
}

uint32_t Stream::bits(uint64_t sample, uint32_t element) const {
  return philox_block(key_, sample, element / 4)[element % 4];
}

double Stream::uniform(uint64_t sample, uint32_t element) const {
  return unit(bits(sample, element));
}

uint64_t Stream::below(uint64_t bound, uint64_t sample, uint32_t element) const {
  return whole_below(bound, philox_block(key_, sample, element));
}

void Stream::uniform(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<uint32_t>(i / 4);
    fill_uniform(out + i, count - i, philox_block(key_, sample, block));
  }
}

void Stream::normal(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const auto block = static_cast<uint32_t>(i / 4);
    fill_normal(out + i, count - i, philox_block(key_, sample, block));
  }
}

std::vector<int64_t> Stream::permutation(int64_t count) const {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i) {
    const auto j =
        static_cast<int64_t>(below(static_cast<uint64_t>(i) + 1, static_cast<uint64_t>(i)));
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  }
  return order;
}

int64_t Stream::permuted(int64_t i, int64_t count) const {
  constexpr uint32_t kRounds = 6;
  const auto last = static_cast<uint64_t>(count - 1);
  const int half = std::max((static_cast<int>(std::bit_width(last)) + 1) / 2, 1);  // bits
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto at = static_cast<uint64_t>(i);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      left ^= bits(right, round) & mask;
      std::swap(left, right);
    }
    at = left << half | right;
  } while (at > last);
  return static_cast<int64_t>(at);
}

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
