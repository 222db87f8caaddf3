// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Class of each picture; `of` is empty and `classes` 0 without labels.
struct Labels {
  int64_t classes = 0;
  std::vector<int64_t> of;
};

// Classes are the first-level folders in order of their names, where all pictures lie in folders
// and there are at least two. Folders that hold everything are looked through.
Labels labels_of_folders(const std::vector<std::string>& pictures);

// Length of the folders, with their '/', that all paths (at least one) share.
size_t common_folders(const std::vector<std::string>& paths);

// {"labels": [["path", k], ...]} or {"labels": null}, as StyleGAN2-ADA's data sets have it.
// Throws UserError(kInput) naming `name` or the picture without a label.
Labels labels_of_json(std::string_view json,
                      const std::string& name,
                      const std::vector<std::string>& pictures);

}  // namespace gantrain
