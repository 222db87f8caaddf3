// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gantrain {

// XXH3, 64 bits: stream keys, duplicate detection. Not for untrusted content.
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

// XXH3, 128 bits, fed in pieces; hex() gives 32 lower-case digits of all bytes so far.
class Digest {
 public:
  Digest();
  ~Digest();
  void update(const void* data, size_t bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// SHA-256 (FIPS 180-4) in lower-case hex: what users compare with sha256sum.
std::string sha256(std::string_view bytes);

// CRC-32C (Castagnoli), as TensorBoard's records use it.
uint32_t crc32c(std::string_view bytes);

}  // namespace gantrain
