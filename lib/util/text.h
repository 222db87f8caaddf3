// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Parts between separators, empty ones kept; split("", ',') is {""}.
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string trim(std::string_view text);
std::string lower(std::string_view text);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);

// As one word of a shell's command line: itself, or in single quotes.
std::string shell_quote(std::string_view word);

// The whole of `text` as a number, or nothing.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_double(std::string_view text);

// Shortest text that reads back as the same double ("0.1", "25000").
std::string number(double value);

// Up to `count` candidates nearest to `word` by edit distance (Damerau-Levenshtein), nearest
// first, only those near enough to be a slip of the fingers.
std::vector<std::string> nearest(std::string_view word,
                                 const std::vector<std::string>& candidates,
                                 size_t count = 3);

// "; did you mean a, b?" or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gantrain
