// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "draw/seed_list.h"

namespace gantrain {

// Numbers as command lines have them. `flag` is only for messages. No torch: both halves of the
// program use it. All throw UserError(kUsage) in one line with what is expected.

// "0-3,7" -> 0 1 2 3 7, in that order, each from 0 to 2^32 - 1 as numpy's RandomState takes it.
SeedList parse_seeds(const std::string& flag, const std::string& text);

// `generate --mix ROWS:COLUMNS:LAYERS`: seeds, seeds, and the layers that come from the columns.
struct Mix {
  std::vector<int64_t> rows;
  std::vector<int64_t> columns;
  std::vector<int64_t> layers;
};

template <class Field>
void fields(Mix& o, Field&& field) {
  field("rows", o.rows);
  field("columns", o.columns);
  field("layers", o.layers);
}

Mix parse_mix(const std::string& text);

// `interpolate --grid 4x2`: tracks side by side.
struct GridShape {
  int64_t columns = 1;
  int64_t rows = 1;
};

template <class Field>
void fields(GridShape& o, Field&& field) {
  field("columns", o.columns);
  field("rows", o.rows);
}

GridShape parse_grid(const std::string& text);

}  // namespace gantrain
