// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gantrain {

// Cells of a sample grid.
struct SampleGridShape {
  int64_t rows = 0;
  int64_t columns = 0;
};

// Returns the label of a cell, counted row after row, of a grid that is sorted by class: where
// there are at most as many classes as rows, each row holds one class; where there are more, the
// cells go through the classes in their order. `classes` is at least 1.
int64_t class_of_cell(int64_t cell, const SampleGridShape& grid, int64_t classes);

// Returns what stands beside each row of such a grid: the class's name, or "first – last" of a row
// that holds several. `names` are by label; nothing without classes.
std::vector<std::string> row_names(const SampleGridShape& grid,
                                   const std::vector<std::string>& names);

}  // namespace gantrain
