// SPDX-License-Identifier: Apache-2.0
#include "data/source.h"

#include "util/error.h"

namespace gantrain {

bool Source::is_picture(size_t file) const { return is_image_name(files()[file]); }

void Source::decode(size_t file, const NeededSize& needed, std::string& bytes, Image& image) const {
  read(file, bytes);
  decode_image(bytes, name(file), needed, image);
}

ImageInfo Source::look(size_t file, bool headers_only) const {
  std::string bytes;
  read(file, bytes);
  if (!headers_only) verify_image(bytes, name(file));
  return image_info(bytes, name(file));
}

void read_part(const FilePart& part, std::string& bytes) {
  if (part.size > kMaxFileBytes) {
    fail(Exit::kInput,
         "{}: {} MB are too many for a picture (at most {})",
         part.name,
         part.size >> 20,
         kMaxFileBytes >> 20);
  }
  bytes.resize(static_cast<size_t>(part.size));
  if (part.read(0, bytes.data(), bytes.size()) != bytes.size()) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", part.name);
  }
}

}  // namespace gantrain
