// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace gantrain {

// A new folder that is removed with all that is in it when this object dies. Throws
// UserError(kDisk) where it cannot be made.
class ScratchFolder {
 public:
  // It lies in `parent`, or in the system's folder for temporary files.
  explicit ScratchFolder(const std::filesystem::path& parent = {});
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gantrain
