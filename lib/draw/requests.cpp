// SPDX-License-Identifier: Apache-2.0
#include "draw/requests.h"

#include <algorithm>
#include <cmath>

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
constexpr double kMostStrength = 1e6;

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

LayerList parse_layers(const std::string& flag, const std::string& text) {
  if (text == "all") return {};
  std::vector<int64_t> numbers = parse_ranges(text, {flag, text, "4-7", kMaxLayer}).numbers();
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return {numbers};
}

std::string text_of(const LayerList& layers) {
  const std::vector<int64_t>& numbers = layers.numbers;
  SeedList list;
  for (size_t first = 0; first < numbers.size();) {
    size_t next = first + 1;
    while (next < numbers.size() && numbers[next] == numbers[next - 1] + 1) ++next;
    list.add(numbers[first], numbers[next - 1]);
    first = next;
  }
  return list.text();
}

DirectionUse parse_direction(const std::string& text, bool walk) {
  const std::string flag = "--direction";
  const std::vector<std::string> parts = split(text, '@');
  const std::vector<std::string> numbers = split(parts.front(), ':');
  const auto expected = [&](const char* what) {
    fail(Exit::kUsage,
         "{} {}: {} is expected, like 3:2.5{}, or with layers, like 3:2.5@4-7",
         flag,
         text,
         what,
         walk ? " or 3:-2:2" : "");
  };
  if (parts.size() > 2 || numbers.size() < 2 || (!walk && numbers.size() > 2))
    expected("NUMBER:STRENGTH");
  const auto number = parse_int(trim(numbers.front()));
  if (!number || *number < 0) expected("a direction's number from 0 on before the colon");
  DirectionUse use{.text = text, .number = *number, .strengths = {}, .layers = {}};
  for (size_t i = 1; i < numbers.size(); ++i) {
    const auto strength = parse_double(trim(numbers[i]));
    if (!strength || !(std::abs(*strength) <= kMostStrength))
      expected("a strength from -1000000 to 1000000 behind the colon");
    use.strengths.push_back(*strength);
  }
  if (parts.size() == 2) {
    use.layers.numbers = parse_ranges(parts[1], {flag, text, "3:2.5@4-7", kMaxLayer}).numbers();
    std::ranges::sort(use.layers.numbers);
  }
  return use;
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
