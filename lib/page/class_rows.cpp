// SPDX-License-Identifier: Apache-2.0
#include "page/class_rows.h"

namespace gantrain {

int64_t class_of_cell(int64_t cell, const SampleGridShape& grid, int64_t classes) {
  if (classes <= grid.rows) return cell / grid.columns * classes / grid.rows;
  return cell * classes / (grid.rows * grid.columns);
}

std::vector<std::string> row_names(const SampleGridShape& grid,
                                   const std::vector<std::string>& names) {
  std::vector<std::string> rows;
  if (names.empty() || grid.columns < 1) return rows;
  const auto classes = static_cast<int64_t>(names.size());
  const auto name_at = [&](int64_t cell) {
    return names[static_cast<size_t>(class_of_cell(cell, grid, classes))];
  };
  for (int64_t row = 0; row < grid.rows; ++row) {
    const std::string first = name_at(row * grid.columns);
    const std::string last = name_at((row + 1) * grid.columns - 1);
    rows.push_back(first == last ? first : first + " \u2013 " + last);
  }
  return rows;
}

}  // namespace gantrain
