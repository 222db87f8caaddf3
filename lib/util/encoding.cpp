// SPDX-License-Identifier: Apache-2.0
#include "util/encoding.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>

namespace gantrain {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' ||
                                       c == '.' || c == '~' || kept.find(c) != kept.npos);
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

}  // namespace gantrain
