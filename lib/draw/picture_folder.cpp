// SPDX-License-Identifier: Apache-2.0
#include "draw/picture_folder.h"

#include "core/npy.h"
#include "report/grid.h"
#include "util/file.h"

namespace gantrain {

PictureFolder::PictureFolder(const std::filesystem::path& folder, PictureFormat format)
    : folder_(folder), format_(format) {
  make_writable_folder(folder_);
}

void PictureFolder::write(const std::string& name, const at::Tensor& picture) const {
  if (format_ == PictureFormat::kNpy) {
    save_npy(folder_ / (name + ".npy"), picture);
  } else {
    write_file(folder_ / (name + ".png"), encode_png(to_image(picture)));
  }
}

}  // namespace gantrain
