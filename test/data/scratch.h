// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "util/file.h"

namespace gantrain {

// A folder of its own for one test, removed at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "gantrain-data-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
  }
  ~Scratch() { std::filesystem::remove_all(root_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(std::string_view relative = "") const {
    return relative.empty() ? root_.string() : (root_ / relative).string();
  }
  // Writes a file and the folders it needs.
  void write(std::string_view relative, std::string_view content) const {
    std::filesystem::create_directories((root_ / relative).parent_path());
    write_file(root_ / relative, content);
  }

 private:
  std::filesystem::path root_;
};

}  // namespace gantrain
