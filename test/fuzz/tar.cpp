// SPDX-License-Identifier: Apache-2.0
// Tar archives.
#include "data/containers/formats.h"
#include "fuzz/container.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string_view bytes = text_of_input(data, size);
  const MemoryFile file(bytes);
  (void)is_tar(bytes);
  accepts(file.path(), [&] {
    const auto end = static_cast<int64_t>(size);
    for (const TarEntry& entry : read_tar_directory(whole_file(file.path()))) {
      require(entry.offset >= 0 && entry.size >= 0 && entry.offset <= end &&
                  entry.size <= end - entry.offset,
              "an entry outside the archive");
    }
  });
  accepts(file.path(), [&] { read_source(*open_tars({file.path()}), file.path()); });
  return 0;
}
