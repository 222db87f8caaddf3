// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "support/temporary_folder.h"
#include "util/file.h"

namespace gantrain {

// A folder of its own for one test, removed at the end.
class Scratch {
 public:
  std::string path(std::string_view relative = "") const {
    return relative.empty() ? root_.path().string() : (root_.path() / relative).string();
  }
  // Writes a file and the folders it needs.
  void write(std::string_view relative, std::string_view content) const {
    std::filesystem::create_directories((root_.path() / relative).parent_path());
    write_file(root_.path() / relative, content);
  }

 private:
  TemporaryFolder root_;
};

}  // namespace gantrain
