// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace gantrain {

// Seeds as a command line has them, "0-1000000,85", in that order. It takes as much memory as the
// text does, however many they are. No torch.
class SeedList {
 public:
  SeedList() = default;

  // Adds first, first + 1, ..., last.
  void add(int64_t first, int64_t last);

  bool empty() const { return ranges_.empty(); }
  int64_t size() const { return ranges_.empty() ? 0 : ranges_.back().end; }
  int64_t operator[](int64_t index) const;  // index: 0 to size() - 1
  std::vector<int64_t> numbers() const;     // all of them
  std::string text() const;                 // "0-1000000,85"

 private:
  struct Range {
    int64_t first;
    int64_t last;
    int64_t end;  // how many seeds there are up to the end of this range
  };
  std::vector<Range> ranges_;
};

// In messages it is its text.
template <>
struct Value<SeedList> {
  static std::string type() { return "seeds (0-63,85)"; }
  static std::optional<SeedList> from_text(std::string_view text);
  static Json to_json(const SeedList& seeds) { return seeds.text(); }
};

}  // namespace gantrain
