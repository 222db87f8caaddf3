// SPDX-License-Identifier: Apache-2.0
#include "draw/seed_list.h"

#include <algorithm>

#include "draw/ranges.h"
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

}  // namespace gantrain
