// SPDX-License-Identifier: Apache-2.0
// The data files of LMDB.
#include "data/containers/formats.h"
#include "fuzz/container.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string_view bytes = text_of_input(data, size);
  const MemoryFile file(bytes);
  (void)is_lmdb(bytes);
  accepts(file.path(), [&] {
    size_t keys = 0;
    for (const LmdbEntry& entry : read_lmdb(whole_file(file.path()))) {
      keys += entry.key.size();
      require(entry.offset >= 0 && entry.size >= 0 &&
                  entry.offset + entry.size <= static_cast<int64_t>(size),
              "a value outside the file");
    }
    require(keys <= size, "keys larger than their file");
  });
  accepts(file.path(), [&] {
    const auto source = open_lmdb(whole_file(file.path()), {});
    std::string content;
    for (size_t i = 0; i < std::min<size_t>(source->files().size(), 64); ++i)
      accepts(file.path(), [&] { source->read(i, content); });
  });
  return 0;
}
