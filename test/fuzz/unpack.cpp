// SPDX-License-Identifier: Apache-2.0
// Compressed data: gzip, zstd, xz, bzip2.
#include "data/containers/formats.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const MemoryFile file(text_of_input(data, size));
  accepts(file.path(), [&] {
    const FilePart part = unpacked(whole_file(file.path()));
    char last = 0;
    require(part.size == 0 || part.read(part.size - 1, &last, 1) == 1, "its size is another one");
  });
  return 0;
}
