// SPDX-License-Identifier: Apache-2.0
#include "util/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace gantrain {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == separator) {
      parts.emplace_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string all;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) all += separator;
    all += parts[i];
  }
  return all;
}

std::string trim(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(
      out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix);
}

bool ends_with(std::string_view text, std::string_view suffix) { return text.ends_with(suffix); }

std::string shell_quote(std::string_view word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_=./:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

size_t utf8_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  return size;
}

namespace {

// A character that moves the cursor, ends a line, or turns the direction of writing.
bool is_control(std::string_view one) {
  if (one.size() == 1) return static_cast<unsigned char>(one[0]) < ' ' || one[0] == '\x7f';
  if (one.size() == 2) return one < "\u00A0" || one == "\u061C";
  return (one >= "\u200E" && one <= "\u200F") || (one >= "\u2028" && one <= "\u202E") ||
         (one >= "\u2066" && one <= "\u2069");
}

}  // namespace

std::string printable(std::string_view text, size_t at_most, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= at_most) return out + "...";
    const size_t size = utf8_size(text, 0);
    const std::string_view one = text.substr(0, std::max<size_t>(size, 1));
    const bool is_shown = size > 0 && (!is_control(one) || kept.find(one) != kept.npos);
    if (is_shown) out += one;
    for (size_t i = 0; i < one.size() && !is_shown; ++i)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(one[i]));
    text.remove_prefix(one.size());
  }
  return out;
}

std::string fill_template(std::string_view text,
                          const std::map<std::string_view, std::string>& values) {
  std::string out;
  for (size_t begin = text.find('@'); begin != std::string_view::npos; begin = text.find('@')) {
    const size_t end = std::min(text.find('@', begin + 1), text.size() - 1);
    out += text.substr(0, begin);
    out += values.at(text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
  }
  return out += text;
}

std::vector<std::vector<std::string>> table_rows(std::string_view text, size_t columns) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : split(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    size_t begin = 0;
    for (std::string& cell : rows.emplace_back(columns)) {
      const bool is_last = &cell == &rows.back().back();  // may have bars of its own
      const size_t end = is_last ? line.size() : std::min(line.find('|', begin), line.size());
      cell = trim(std::string_view(line).substr(begin, end - begin));
      begin = std::min(end + 1, line.size());
    }
  }
  return rows;
}

namespace {

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number value = 0;
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Damerau-Levenshtein distance (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// What of a name or a flag is compared with others. That all flags begin with dashes makes them no
// more alike.
std::string compared(std::string_view word) {
  return lower(word.substr(std::min(word.find_first_not_of('-'), word.size())));
}

// How many slips of the fingers a word of that length is taken to have at most: one in four
// characters.
size_t most_slips(size_t length) { return length < 3 ? 0 : std::max<size_t>(1, length / 4); }

}  // namespace

std::optional<int64_t> parse_int(std::string_view text) { return parse_whole<int64_t>(text); }
std::optional<double> parse_double(std::string_view text) { return parse_whole<double>(text); }

std::string shortest(double value) {
  // Whole numbers up to 2^53 without an exponent: 1e+05 is no way to write a batch.
  if (value > -9e15 && value < 9e15 && value == static_cast<double>(static_cast<int64_t>(value))) {
    return std::to_string(static_cast<int64_t>(value));
  }
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr};
}

std::vector<std::string> likely_meant(std::string_view word,
                                      const std::vector<std::string>& candidates,
                                      size_t count) {
  struct Near {
    size_t distance;
    size_t more;  // characters behind the word, where the candidate begins with it
    std::string candidate;
  };
  std::vector<Near> near;
  const std::string wanted = compared(word);
  for (const std::string& candidate : candidates) {
    const std::string have = compared(candidate);
    size_t distance = edit_distance(wanted, have);
    const bool longer = have.size() >= 3 && starts_with(wanted, have);
    if (wanted.size() >= 3 && have.find(wanted) != std::string::npos)
      distance = std::min<size_t>(distance, 1);
    const bool begins = wanted.size() >= 3 && starts_with(have, wanted);
    if (begins) distance = 0;
    // "lr" for "G.adam.lr": the last component is what people remember.
    if (const size_t dot = have.rfind('.'); dot != std::string::npos) {
      const std::string last = have.substr(dot + 1);
      distance = std::min(distance, edit_distance(wanted, last) + 1);
      if (last.size() >= 4 && starts_with(wanted, last)) distance = std::min<size_t>(distance, 2);
    }
    if (longer || distance <= most_slips(wanted.size()))
      near.push_back({distance, begins ? have.size() - wanted.size() : 0, candidate});
  }
  std::ranges::stable_sort(near, [](const Near& a, const Near& b) {
    return std::pair(a.distance, a.more) < std::pair(b.distance, b.more);
  });
  std::vector<std::string> out;
  for (size_t i = 0; i < near.size() && i < count; ++i) {
    if (near[i].distance == near[0].distance) out.push_back(near[i].candidate);  // the rest: noise
  }
  return out;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = likely_meant(word, candidates);
  return near.empty() ? "" : "; did you mean " + join(near, ", ") + "?";
}

std::string grouped(double value) {
  constexpr double kWhole = 99.95;  // what is less has a digit after the point
  if (!std::isfinite(value) || std::abs(value) < kWhole) return fmt::format("{:.3g}", value);
  std::string text = fmt::format("{:.0f}", value);
  const size_t sign = value < 0 ? 1 : 0;
  for (size_t end = text.size(); end > sign + 3;) {
    end -= 3;
    text.insert(end, ",");
  }
  return text;
}

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
