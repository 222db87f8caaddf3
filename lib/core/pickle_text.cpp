// SPDX-License-Identifier: Apache-2.0
#include "core/pickle_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace gantrain {

namespace {

std::optional<uint32_t> hex_digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return {};
  uint32_t value = 0;
  const char* end = text.data() + at + count;
  const auto [stop, error] = std::from_chars(text.data() + at, end, value, 16);
  if (error != std::errc() || stop != end) return {};
  return value;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::optional<std::string> unquote_python(std::string_view literal) {
  const size_t last = literal.size() - 1;
  if (literal.size() < 2 || literal[0] != literal[last]) return {};
  if (literal[0] != '\'' && literal[0] != '"') return {};
  std::string out;
  for (size_t at = 1; at < last; ++at) {
    if (literal[at] != '\\') {
      out += literal[at];
      continue;
    }
    constexpr std::string_view kEscapes = "\\'\"nrt", kMeant = "\\'\"\n\r\t";
    if (++at >= last) return {};
    if (literal[at] == 'x') {
      const auto code = hex_digits(literal.substr(0, last), at + 1, 2);
      if (!code) return {};
      out += static_cast<char>(*code);
      at += 2;
    } else {
      const size_t which = kEscapes.find(literal[at]);
      if (which == std::string_view::npos) return {};
      out += kMeant[which];
    }
  }
  return out;
}

std::optional<std::string> decode_raw_unicode(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool escape = text[at] == '\\' && at + 1 < text.size();
    const size_t digits = !escape ? 0 : text[at + 1] == 'u' ? 4 : text[at + 1] == 'U' ? 8 : 0;
    if (digits == 0) {
      append_utf8(out, static_cast<unsigned char>(text[at]));
      continue;
    }
    const auto code = hex_digits(text, at + 2, digits);
    if (!code || *code > 0x10ffff) return {};
    append_utf8(out, *code);
    at += 1 + digits;
  }
  return out;
}

std::optional<std::string> utf8_to_latin1(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      out += text[at];
      continue;
    }
    if ((byte != 0xc2 && byte != 0xc3) || at + 1 >= text.size()) return {};
    const auto next = static_cast<unsigned char>(text[++at]);
    if ((next & 0xc0) != 0x80) return {};
    out += static_cast<char>(((byte & 3) << 6) | (next & 0x3f));
  }
  return out;
}

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out;
  for (const char c : text) {
    if (out.size() >= kLongest) return out + "...";
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace gantrain
