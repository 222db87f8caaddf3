// SPDX-License-Identifier: Apache-2.0
#include "draw/requests.h"

#include <algorithm>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

void SeedList::add(int64_t first, int64_t last) {
  ranges_.push_back({first, last, size() + last - first + 1});
}

int64_t SeedList::operator[](int64_t index) const {
  const auto range = std::upper_bound(
      ranges_.begin(), ranges_.end(), index, [](int64_t i, const Range& r) { return i < r.end; });
  return range->last - (range->end - 1 - index);
}

std::vector<int64_t> SeedList::numbers() const {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
  return all;
}

std::string SeedList::text() const {
  std::vector<std::string> parts;
  for (const Range& r : ranges_) {
    parts.push_back(r.first == r.last ? std::to_string(r.first)
                                      : fmt::format("{}-{}", r.first, r.last));
  }
  return join(parts, ",");
}

std::optional<SeedList> Value<SeedList>::from_text(std::string_view text) {
  if (text.empty()) return SeedList();
  try {
    return parse_seeds("seeds", std::string(text));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

namespace {

constexpr int64_t kMaxSeed = 4294967295;
constexpr int64_t kMaxRange = 1'000'000;  // from the first number of a range to its last
constexpr int64_t kMaxLayer = 999;
constexpr int64_t kMaxSide = 64;  // pictures side by side

struct Expected {
  const std::string& flag;
  const std::string& whole;  // the flag's value, for the message
  const char* example;
  int64_t max;
};

SeedList parse_ranges(const std::string& text, const Expected& expected) {
  SeedList numbers;
  for (const std::string& part : split(text, ',')) {
    const size_t dash = part.find('-', 1);
    const auto first = parse_int(trim(part.substr(0, dash)));
    const auto last = dash == std::string::npos ? first : parse_int(trim(part.substr(dash + 1)));
    if (!first || !last || *first < 0 || *last > expected.max || *last < *first) {
      fail(Exit::kUsage,
           "{} {}: numbers and ranges like {} are expected, from 0 to {}",
           expected.flag,
           expected.whole,
           expected.example,
           expected.max);
    }
    if (*last - *first > kMaxRange) {
      fail(Exit::kUsage,
           "{} {}: {} is a range of {} numbers; one range has at most {}, and commas stand between "
           "several",
           expected.flag,
           expected.whole,
           trim(part),
           *last - *first + 1,
           kMaxRange + 1);
    }
    numbers.add(*first, *last);
  }
  return numbers;
}

}  // namespace

SeedList parse_seeds(const std::string& flag, const std::string& text) {
  return parse_ranges(text, {flag, text, "0-63,85", kMaxSeed});
}

Mix parse_mix(const std::string& text) {
  const std::string flag = "--mix";
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 3) {
    fail(Exit::kUsage,
         "--mix {}: ROWS:COLUMNS:LAYERS is expected, like 85,100:55-60:0-6 (seeds, seeds, layers "
         "of the columns)",
         text);
  }
  const Expected seeds = {flag, text, "85,100:55-60:0-6", kMaxSeed};
  const Expected layers = {flag, text, "85,100:55-60:0-6 (layers last)", kMaxLayer};
  return {parse_ranges(parts[0], seeds).numbers(),
          parse_ranges(parts[1], seeds).numbers(),
          parse_ranges(parts[2], layers).numbers()};
}

GridShape parse_grid(const std::string& text) {
  const std::vector<std::string> parts = split(lower(text), 'x');
  const auto columns = parse_int(parts.front());
  const auto rows = parse_int(parts.back());
  if (parts.size() != 2 || !columns || !rows || *columns < 1 || *rows < 1 || *columns > kMaxSide ||
      *rows > kMaxSide) {
    fail(Exit::kUsage,
         "--grid {}: COLUMNSxROWS is expected, like 4x2, each from 1 to {}",
         text,
         kMaxSide);
  }
  return {*columns, *rows};
}

}  // namespace gantrain
