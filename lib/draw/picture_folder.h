// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "draw/requests.h"

namespace gantrain {

// One file for each picture in a folder: NAME.png, 8 bit, or NAME.npy, float32 [C, H, W].
class PictureFolder {
 public:
  // Makes the folder. Throws UserError(kDisk) if it cannot be written to.
  PictureFolder(const std::filesystem::path& folder, PictureFormat format);
  // picture [C, H, W], about [-1, 1].
  void write(const std::string& name, const at::Tensor& picture) const;

 private:
  std::filesystem::path folder_;
  PictureFormat format_;
};

}  // namespace gantrain
