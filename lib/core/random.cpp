// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <array>
#include <cmath>
#include <numeric>

#include "util/hash.h"

namespace gantrain {

namespace {

using Block = std::array<uint32_t, 4>;

// Philox 4x32-10: Salmon, Moraes, Dror & Shaw, SC 2011, sec. 4.
Block philox(Block counter, uint64_t key) {
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

Block block_of(uint64_t key, uint64_t sample, uint32_t block) {
  return philox({block, 0, static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
                key);
}

double unit(uint32_t bits) { return bits * 0x1p-32; }

}  // namespace

Stream::Stream(uint64_t seed, std::string_view purpose, uint64_t iteration, uint64_t phase) {
  const std::array<uint64_t, 3> numbers = {seed, iteration, phase};
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
  key_ = hash64(bytes, hash64(purpose));
}

uint32_t Stream::bits(uint64_t sample, uint32_t element) const {
  return block_of(key_, sample, element / 4)[element % 4];
}

double Stream::uniform(uint64_t sample, uint32_t element) const {
  return unit(bits(sample, element));
}

uint64_t Stream::below(uint64_t bound, uint64_t sample, uint32_t element) const {
  const Block block = block_of(key_, sample, element);
  const uint64_t wide = uint64_t{block[0]} << 32 | block[1];
  return static_cast<uint64_t>((static_cast<unsigned __int128>(wide) * bound) >> 64);
}

void Stream::uniform(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const Block block = block_of(key_, sample, static_cast<uint32_t>(i / 4));
    for (int64_t j = 0; j < 4 && i + j < count; ++j) {
      out[i + j] = static_cast<float>(block[j] >> 8) * 0x1p-24f;  // 24 bits: never rounds to 1
    }
  }
}

void Stream::normal(float* out, int64_t count, uint64_t sample) const {
  for (int64_t i = 0; i < count; i += 4) {
    const Block block = block_of(key_, sample, static_cast<uint32_t>(i / 4));
    for (int64_t j = 0; j < 4 && i + j < count; j += 2) {
      // Box & Muller 1958; 1 - u lies in (0, 1], so the logarithm is finite.
      const double radius = std::sqrt(-2 * std::log(1 - unit(block[j])));
      const double angle = 2 * M_PI * unit(block[j + 1]);
      out[i + j] = static_cast<float>(radius * std::cos(angle));
      if (i + j + 1 < count) out[i + j + 1] = static_cast<float>(radius * std::sin(angle));
    }
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

}  // namespace gantrain
