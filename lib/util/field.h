// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace gantrain {

// An options struct X lists its members once, beside it:
//
//   template <class Field> void fields(X& o, Field&& field) {
//     field("name", o.name, "help");                    // bool, int64_t, double, string, enum,
//     field("count", o.count, at_least(1), "help");     // optional<int64_t> ("auto"), Kimg,
//   }                                                   // Duration, Scheduled
//   (config/scheduled.h),
//                                                       // or a struct with fields()
//
// Parsing, defaults, --set, checks, help and config.json all come from that list (lib/config).

// The range that a number must lie in.
struct Check {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool power_of_two = false;
};
constexpr Check at_least(double min) { return {.min = min}; }
constexpr Check between(double min, double max) { return {.min = min, .max = max}; }
constexpr Check power_of_two(double min, double max) {
  return {.min = min, .max = max, .power_of_two = true};
}

// Thousands of real images shown to the discriminator, kept as a whole number of images.
// In text a bare number is kimg; with k or M it counts images: 25M = 25000 kimg.
struct Kimg {
  int64_t images = 0;
};

// Seconds; in text "90", "60s", "23h30m".
struct Duration {
  double seconds = 0;
};

}  // namespace gantrain
