// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace gantrain {

// Returns the 64-bit XXH3 hash, for stream keys and the detection of duplicates. It is not for
// untrusted content.
uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

// Computes a 128-bit XXH3 hash of bytes that come in pieces. hex() returns 32 lower-case digits for
// all bytes so far.
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

// Returns the SHA-256 hash (FIPS 180-4) in lower-case hex, which users compare with sha256sum.
std::string sha256(std::string_view bytes);

// Returns the HMAC-SHA256 (RFC 2104) of a message in lower-case hex.
std::string hmac_sha256(std::string_view key, std::string_view message);

// Returns the CRC-32C (Castagnoli), which TensorBoard's records contain.
uint32_t crc32c(std::string_view bytes);

}  // namespace gantrain
