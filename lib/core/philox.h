// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

// The arithmetic of every random draw, without torch, shared by Stream (core/random.h) and the draw
// operators of each device. All is constexpr so that a CUDA compiler takes it for its device too
// (--expt-relaxed-constexpr).
namespace gantrain {

using PhiloxBlock = std::array<uint32_t, 4>;

// Ten rounds of Philox 4x32: Salmon, Moraes, Dror & Shaw, SC 2011, sec. 4.
constexpr PhiloxBlock philox_rounds(PhiloxBlock counter, uint64_t key) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
               static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
               static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

// Returns the random bits of elements 4 * block to 4 * block + 3 of a sample.
constexpr PhiloxBlock philox_block(uint64_t key, uint64_t sample, uint32_t block) {
  return philox_rounds(
      {block, 0, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)}, key);
}

// Returns the upper 64 bits of the 128-bit product, computed from 32-bit pieces (Knuth, TAOCP
// 4.3.1, algorithm M).
constexpr uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xFFFFFFFF, a1 = a >> 32, b0 = b & 0xFFFFFFFF, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  const uint64_t other = a0 * b1 + (middle & 0xFFFFFFFF);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// Constants of XXH3 for inputs of 17 to 32 bytes: the first words of its secret and two primes.
constexpr std::array<uint64_t, 4> kXxhSecret = {
    0xBE4BA423396CFEB8, 0x1CAD21F72C81017C, 0xDB979083E96DD4DE, 0x1F67B3B7A4A44072};
constexpr uint64_t kXxhLengthPrime = 0x9E3779B185EBCA87;
constexpr uint64_t kXxhAvalanchePrime = 0x165667919E3779F9;
constexpr uint64_t kStreamKeyBytes = 24;

// Returns the key of a stream: hash64 (util/hash.h) of the 24 bytes {seed, iteration, phase}, least
// significant byte first, seeded with the hash of the stream's purpose.
constexpr uint64_t stream_key(uint64_t purpose, uint64_t seed, uint64_t iteration, uint64_t phase) {
  const auto folded = [](uint64_t a, uint64_t b) { return (a * b) ^ multiply_high(a, b); };
  uint64_t h = kStreamKeyBytes * kXxhLengthPrime;
  h += folded(seed ^ (kXxhSecret[0] + purpose), iteration ^ (kXxhSecret[1] - purpose));
  h += folded(iteration ^ (kXxhSecret[2] + purpose), phase ^ (kXxhSecret[3] - purpose));
  h = (h ^ (h >> 37)) * kXxhAvalanchePrime;
  return h ^ (h >> 32);
}

// Turn random bits into a number in [0, 1): a double made of all 32 bits, or a float made of 24, so
// that rounding never gives 1.
constexpr double unit(uint32_t bits) { return bits * 0x1p-32; }
constexpr float unit_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Returns a whole number in [0, bound), made of a block's first 64 bits. The bias is below 2^-32.
constexpr uint64_t whole_below(uint64_t bound, const PhiloxBlock& block) {
  return multiply_high(uint64_t{block[0]} << 32 | block[1], bound);
}

// Makes two independent draws from N(0, 1) out of two words of bits (Box & Muller 1958), computed
// in Real. 1 - u lies in (0, 1], so the logarithm is finite.
template <class Real = double>
constexpr std::array<float, 2> normal_pair(uint32_t first, uint32_t second) {
  constexpr Real pi = 3.14159265358979323846;
  const Real radius = std::sqrt(-2 * std::log(1 - Real{unit(first)}));
  const Real angle = 2 * pi * Real{unit(second)};
  return {static_cast<float>(radius * std::cos(angle)),
          static_cast<float>(radius * std::sin(angle))};
}

// Write the first `count` of a block's four elements, at most 4, to `out`.
constexpr void fill_uniform(float* out, int64_t count, const PhiloxBlock& block) {
  for (int64_t j = 0; j < count && j < 4; ++j) out[j] = unit_float(block[j]);
}
template <class Real = double>
constexpr void fill_normal(float* out, int64_t count, const PhiloxBlock& block) {
  for (int64_t j = 0; j < count && j < 4; j += 2) {
    const std::array<float, 2> pair = normal_pair<Real>(block[j], block[j + 1]);
    out[j] = pair[0];
    if (j + 1 < count) out[j + 1] = pair[1];
  }
}

}  // namespace gantrain
