// SPDX-License-Identifier: Apache-2.0
#include "ddp_units.h"

#include <algorithm>
#include <cmath>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

// Takes the unit off the end of the text.
bool take_unit(std::string& text, const std::string& unit) {
  if (!ends_with(text, unit)) return false;
  text = trim(text.substr(0, text.size() - unit.size()));
  return true;
}

double milliseconds(const std::string& flag, const std::string& text, const std::string& word) {
  const auto value = parse_double(word);
  if (!value || !(*value > 0) || *value > 1e9)
    fail(Exit::kUsage,
         "{} {}: milliseconds of an iteration (180), or of each phase (D=60,G=80); above 0",
         flag,
         text);
  return 1e-3 * *value;
}

}  // namespace

double bandwidth_of(const std::string& flag, const std::string& text) {
  std::string digits = text;
  double unit = 1e9;
  if (take_unit(digits, "Gb/s")) {
    unit = 1e9 / 8;
  } else {
    take_unit(digits, "GB/s");
  }
  const auto value = parse_double(digits);
  if (!value || !(*value * unit >= 1e6) || *value * unit > 1e15) {
    fail(Exit::kUsage,
         "{} {}: gigabytes a second of a rank (50 or 50GB/s) or gigabits (400Gb/s); 0.001GB/s to "
         "1000000GB/s",
         flag,
         text);
  }
  return *value * unit;
}

double latency_of(const std::string& flag, const std::string& text) {
  std::string digits = text;
  take_unit(digits, "us");
  const auto value = parse_double(digits);
  if (!value || !(*value >= 0) || *value > 1e6)
    fail(Exit::kUsage, "{} {}: microseconds (10 or 10us), 0 to 1000000", flag, text);
  return 1e-6 * *value;
}

std::vector<GivenTime> given_times_of(const std::string& flag, const std::string& text) {
  if (text.find('=') == std::string::npos) return {{"", milliseconds(flag, text, text)}};
  std::vector<GivenTime> all;
  for (const std::string& word : split(text, ',')) {
    const size_t at = word.find('=');
    const std::string phase = trim(word.substr(0, at));
    const bool twice = std::any_of(
        all.begin(), all.end(), [&](const GivenTime& time) { return time.phase == phase; });
    if (at == std::string::npos || phase.empty() || twice)
      fail(Exit::kUsage, "{} {}: each phase once, as in D=60,G=80", flag, text);
    all.push_back({phase, milliseconds(flag, text, word.substr(at + 1))});
  }
  return all;
}

}  // namespace gantrain
