// SPDX-License-Identifier: Apache-2.0
#include "command/values.h"

#include <cmath>
#include <filesystem>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

void check_word(const std::string& flag,
                const std::string& word,
                const std::vector<std::string>& allowed) {
  for (const std::string& known : allowed) {
    if (word == known) return;
  }
  fail(Exit::kUsage,
       "{} {}: allowed: {}{}",
       flag,
       word,
       join(allowed, ", "),
       did_you_mean(word, allowed));
}

int64_t parse_integer(const std::string& flag, const std::string& text, const Check& allowed) {
  const auto value = parse_int(text);
  if (!value || static_cast<double>(*value) < allowed.min ||
      static_cast<double>(*value) > allowed.max)
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.words);
  return *value;
}

double parse_number(const std::string& flag, const std::string& text, const Check& allowed) {
  const auto value = parse_double(text);
  if (!value || !std::isfinite(*value) || *value < allowed.min || *value > allowed.max)
    fail(Exit::kUsage, "{} {}: allowed: {}", flag, text, allowed.words);
  return *value;
}

void parse_said(const std::string& flag, const std::string& text, Size& size) {
  constexpr int64_t kLargestSide = 4096;
  const std::optional<Size> parsed = parse_size(text);
  if (!parsed || parsed->shorter() < 4 || parsed->longer() > kLargestSide) {
    fail(Exit::kUsage,
         "{} {}: pixels a side, or width x height, from 4 to {}: 256, 256x128",
         flag,
         text,
         kLargestSide);
  }
  size = *parsed;
}

void check_film(const std::string& flag, const std::string& file) {
  const bool mp4 = ends_with(lower(file), ".mp4");
  if (!mp4 && !ends_with(lower(file), ".webp"))
    fail(Exit::kUsage, "{} {}: give a name ending in .webp or .mp4", flag, file);
  if (mp4 && find_program("ffmpeg").empty()) {
    fail(Exit::kEnvironment,
         "{} {}: MP4 needs ffmpeg, which is not on PATH; {} {}.webp needs nothing",
         flag,
         file,
         flag,
         file.substr(0, file.size() - 4));
  }
  check_folder_of(flag, file);
}

void check_folder_of(const std::string& flag, const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    fail(Exit::kDisk, "{} {}: there is no folder {}", flag, file, folder.string());
}

}  // namespace gantrain
