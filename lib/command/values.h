// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/value.h"
#include "util/field.h"

namespace gantrain {

// Throws UserError(kUsage) with the allowed words and the nearest ones unless `word` is an allowed
// one.
void check_word(const std::string& flag,
                const std::string& word,
                const std::vector<std::string>& allowed);

// Returns the enum value that `word` names; throws as check_word() does.
template <class Enum>
Enum parse_word(const std::string& flag, const std::string& word) {
  const auto known = names(Enum{});
  check_word(flag, word, {known.begin(), known.end()});
  return Value<Enum>::from_text(word).value();
}

// Return the number of a flag. Throw UserError(kUsage) that names the flag, the text and the words
// of `allowed`.
int64_t parse_integer(const std::string& flag, const std::string& text, const Check& allowed);
double parse_number(const std::string& flag, const std::string& text, const Check& allowed);

// Reads pixels a side, or width x height. Throws UserError(kUsage) for others than 4 to 4096.
void parse_said(const std::string& flag, const std::string& text, Size& size);

// Throws UserError(kDisk) if the folder for a new file does not exist, so that the error comes
// before the work and not after it.
void check_folder_of(const std::string& flag, const std::string& file);

// Checks the name of a new animation: NAME.webp, or NAME.mp4 where ffmpeg is. Throws UserError that
// names the flag.
void check_film(const std::string& flag, const std::string& file);

}  // namespace gantrain
