// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gantrain {

// Little-endian numbers in foreign bytes; 0 where they do not lie within the bytes whole.
class LittleEndian {
 public:
  explicit LittleEndian(std::string_view bytes) : bytes_(bytes) {}

  uint64_t u16(size_t at) const { return number(at, 2); }
  uint64_t u32(size_t at) const { return number(at, 4); }
  uint64_t u64(size_t at) const { return number(at, 8); }
  std::string_view bytes() const { return bytes_; }

 private:
  uint64_t number(size_t at, size_t count) const {
    if (bytes_.size() < count || at > bytes_.size() - count) return 0;
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes_[at + i]);
    return value;
  }

  std::string_view bytes_;
};

}  // namespace gantrain
