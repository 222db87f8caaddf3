// SPDX-License-Identifier: Apache-2.0
// Model files: an input as a whole file, and as one without the length that stands first.
#include <ATen/Tensor.h>

#include "core/tensor_files.h"
#include "fuzz/fuzz_input.h"

namespace {

using namespace gantrain;

void read(std::string_view content) {
  const MemoryFile file(content);
  accepts(file.path(), [&] {
    size_t bytes = 0;
    for (const auto& [name, tensor] : load_safetensors(file.path()).tensors)
      bytes += tensor.nbytes();
    require(bytes <= content.size(), "tensors larger than their file");
  });
}

// The header ends at the first 0, which no JSON has; the buffer follows.
std::string with_length(std::string_view input) {
  const uint64_t length = std::min(input.find('\0'), input.size());
  std::string content(reinterpret_cast<const char*>(&length), sizeof length);
  content += input.substr(0, length);
  if (length < input.size()) content += input.substr(length + 1);
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of_input(data, size);
  read(input);
  read(with_length(input));
  return 0;
}
