// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gantrain {

// Returns the parts between separators and keeps empty ones; split("", ',') is {""}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string trim(std::string_view text);
std::string lower(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

// Whether one of the values is that one.
template <class Values, class T>
requires requires(const Values& values, const T& one) { *std::begin(values) == one; }
bool contains(const Values& values, const T& one) {
  return std::find(std::begin(values), std::end(values), one) != std::end(values);
}

// Quotes a word for a shell's command line: returns it unchanged where that is safe, else in single
// quotes.
std::string shell_quote(std::string_view word);

// Returns how many bytes the character at `at` has, 0 if it is no UTF-8 (RFC 3629, without overlong
// forms' finer rules, which no browser minds).
size_t utf8_size(std::string_view text, size_t at);

// Makes text that somebody else may have written fit for a terminal and for a line of a log: \xNN
// stands for control characters but the `kept` ones, for what turns the direction of writing, and
// for bytes that are no UTF-8. Longer text ends in "..." after `at_most` bytes.
std::string printable(std::string_view text, size_t at_most = 80, std::string_view kept = "");

// Returns text as one printable line; other values, and literals, as they are.
template <class T>
decltype(auto) one_line(const T& value) {
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>)
    return printable(value, std::string_view::npos);
  else
    return (value);
}

// fmt::format() with one_line() of each argument.
template <class... Args>
std::string message_text(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(fmt::runtime(fmt::string_view(format)), one_line(args)...);
}

// Prints message_text() to standard output.
template <class... Args>
void print_text(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}", message_text<Args...>(format, std::forward<Args>(args)...));
}

// Files of the sources that the program holds in itself: name -> content.
using EmbeddedFiles = std::map<std::string_view, std::string_view>;

// Returns `text` with the value of each "@NAME@". Throws std::out_of_range for a name without one.
std::string fill_template(std::string_view text,
                          const std::map<std::string_view, std::string>& values);

// Returns the rows of a table in a text file, each of `columns` cells with bars between them. Empty
// lines and those that begin with # are comments.
std::vector<std::vector<std::string>> table_rows(std::string_view text, size_t columns);

// Read the whole of `text` as a number, or return nothing.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

// Returns the shortest text that reads back as the same double ("0.1", "25000").
std::string shortest(double value);

// Returns up to `count` candidates that are near enough to `word` to be typing errors, by edit
// distance (Damerau-Levenshtein), nearest first.
std::vector<std::string> likely_meant(std::string_view word,
                                      const std::vector<std::string>& candidates,
                                      size_t count = 3);

// Returns "; did you mean a, b?", or "" where no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

// Returns a number for people to read: three significant digits, and whole from 100 on, with a
// comma between thousands: "0.0312", "6.83", "41.2", "179", "1,790", "25,000,000".
std::string grouped(double value);

// Returns bytes as text (RFC 4648, sec. 4).
std::string base64(std::string_view bytes);

// Returns text as a part of a URL's path or query (RFC 3986, sec. 2.1): letters, digits, "-._~" and
// the `kept` characters stay, "%20" stands for a blank.
std::string percent_encoded(std::string_view text, std::string_view kept = "");

}  // namespace gantrain
