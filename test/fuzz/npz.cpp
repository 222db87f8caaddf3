// SPDX-License-Identifier: Apache-2.0
// numpy's .npz files.
#include <ATen/Tensor.h>

#include "core/tensor_files.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const MemoryFile file(text_of_input(data, size));
  (void)is_npz(file.path());
  accepts(file.path(), [&] { require(load_npz(file.path(), "w").numel() > 0, "an empty array"); });
  accepts(file.path(), [&] { (void)load_npz_text(file.path(), "about"); });
  accepts(file.path(), [&] { (void)npz_names(file.path()); });
  return 0;
}
