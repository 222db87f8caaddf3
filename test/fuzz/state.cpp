// SPDX-License-Identifier: Apache-2.0
// State files: as they come, which their checksum refuses nearly always, and with the checksum made
// right, so that what is behind it is reached.
#include <ATen/Tensor.h>

#include "core/archive.h"
#include "fuzz/fuzz_input.h"
#include "util/hash.h"

namespace {

constexpr size_t kDigestBytes = 32;  // hex digits at the end of the file
constexpr size_t kCommentBytes = 18 + kDigestBytes;

// The same file, its last bytes replaced by the checksum that core/archive.h describes.
std::string with_right_checksum(std::string file) {
  if (file.size() < kCommentBytes) return file;
  file.resize(file.size() - kCommentBytes);
  gantrain::Digest digest;
  digest.update(file.data(), file.size());
  return file + "gantrain-xxh3-128:" + digest.hex();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string text(text_of_input(data, size));
  for (const std::string& content : {text, with_right_checksum(text)}) {
    const MemoryFile file(content);
    accepts(file.path(), [&] { (void)load_archive(file.path()); });
  }
  return 0;
}
