// SPDX-License-Identifier: Apache-2.0
// Zip archives, by the reader of plain directories and by the one for all others.
#include "data/containers/formats.h"
#include "fuzz/container.h"

namespace {

using namespace gantrain;

void read_directory(const std::string& path) {
  const RandomAccessFile file(path, path);
  std::string content;
  for (const ZipEntry& entry : read_zip_directory(file)) {
    if (!entry.stored || !read_stored(file, entry, content)) continue;
    require(content.size() == static_cast<size_t>(entry.size), "another size than announced");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(text_of_input(data, size));
  accepts(file.path(), [&] { read_directory(file.path()); });
  accepts(file.path(), [&] { read_source(*open_zip(file.path()), file.path()); });
  return 0;
}
