// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// The class of each picture. Without labels, `of` is empty and `classes` is 0.
struct Labels {
  int64_t classes = 0;
  std::vector<int64_t> of;
};

// Takes the first-level folders, in the order of their names, as classes. There are no labels
// unless all pictures lie in folders and there are at least two of these. A folder that holds all
// pictures does not count as a level.
Labels labels_of_folders(const std::vector<std::string>& pictures);

// Returns the length of the leading folders, with their '/', that all paths (at least one) share.
size_t common_folders(const std::vector<std::string>& paths);

// Reads labels in the form of StyleGAN2-ADA's data sets: {"labels": [["path", k], ...]} or
// {"labels": null}. Throws UserError(kInput) that names `name` or the picture without a label.
Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

}  // namespace gantrain
