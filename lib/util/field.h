// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace gantrain {

// An options struct X lists its members once, beside it:
//
//   template <class Field> void fields(X& o, Field&& field) {
//     field("name", o.name, "help");
//     field("count", o.count, at_least(1), "help");
//   }
//
// A member is a bool, an int64_t, a double, a string, an enum, an optional<int64_t> ("auto"), a
// Kimg, a Duration, a Scheduled (config/value.h) or a struct with fields() of its own. Parsing,
// defaults, --set, checks, help and config.json all come from that list (lib/config).

// The range that a number must lie in.
struct Check {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool power_of_two = false;
  const char* words = "";  // what a verb's flag says is allowed: "1 to 100"
};
constexpr Check at_least(double min) { return {.min = min}; }
constexpr Check between(double min, double max) { return {.min = min, .max = max}; }
constexpr Check between(double min, double max, const char* words) {
  return {.min = min, .max = max, .words = words};
}
constexpr Check any_number(const char* words) { return {.words = words}; }
constexpr Check power_of_two(double min, double max) {
  return {.min = min, .max = max, .power_of_two = true};
}

// How a verb's command line says a member that has a help text. Without it, it is --its-name.
struct Said {
  const char* names = "";   // "--seeds,--seed", "PATH,--data": flags, and a word without one
  const char* value = "";   // what --help shows behind the flag instead of the type: "A B"
  const char* group = "";   // heading in --help
  const char* one_of = "";  // the words that there are: "node,rank"
  int count = 0;            // how many words follow; 0: as the type says; -1: one or none
  bool last_wins = false;   // may be given again
  bool one_each = false;    // of a list: each word has the flag before it
  bool show_default = false;
};
constexpr Said said(const char* names) { return {.names = names}; }
constexpr Said said_again(const char* names) { return {.names = names, .last_wins = true}; }

// Thousands of real images shown to the discriminator, kept as a whole number of images.
// In text a bare number is kimg; with k or M it counts images: 25M = 25000 kimg.
struct Kimg {
  int64_t images = 0;
  bool operator==(const Kimg&) const = default;
};

// Seconds; in text "90", "60s", "23h30m".
struct Duration {
  double seconds = 0;
};

}  // namespace gantrain
