// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Returns the parts between separators and keeps empty ones; split("", ',') is {""}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string trim(std::string_view text);
std::string lower(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

// Quotes a word for a shell's command line: returns it unchanged where that is safe, else in single
// quotes.
std::string shell_quote(std::string_view word);

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

}  // namespace gantrain
