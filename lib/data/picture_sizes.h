// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/options.h"
#include "util/field.h"
#include "util/size.h"

namespace gantrain {

struct SizeCount {
  Size size;
  int64_t pictures = 0;
};

template <class Field>
void fields(SizeCount& o, Field&& field) {
  field("size", o.size);
  field("pictures", o.pictures);
}

// The sizes of a data set's pictures as their files have them, as far as these were looked at.
struct PictureSizes {
  std::vector<SizeCount> counts;  // the commonest first; none: nothing is known
  int64_t pictures = 0;           // of the whole data set

  int64_t looked_at() const;
  // The commonest size where at least half of the pictures have it.
  std::optional<Size> commonest() const;
  // The commonest size, or else a square of the median of the shorter sides.
  Size typical() const;
};

template <class Field>
void fields(PictureSizes& o, Field&& field) {
  field("counts", o.counts);
  field("pictures", o.pictures);
}

// Sorts what was counted by width and height.
PictureSizes sorted_sizes(const std::map<std::pair<int64_t, int64_t>, int64_t>& counts,
                          int64_t pictures);

// Says them: "64x64"; "37 sizes from 20x30 to 400x300, 64x64 in 120 of 200 pictures"; and of how
// many it is known.
std::string sizes_text(const PictureSizes& sizes);

// How many times wider and higher a picture becomes by options.fit; below 1 it is reduced.
double enlargement(const Size& picture, const DataOptions& options);

// A warning where half of the pictures or more are enlarged to twice their size or more; else "".
std::string enlargement_warning(const PictureSizes& sizes, const DataOptions& options);

}  // namespace gantrain
