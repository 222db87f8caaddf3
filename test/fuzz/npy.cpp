// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files.
#include <ATen/Tensor.h>

#include "core/tensor_files.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  accepts("some file", [&] {
    const at::Tensor array = parse_npy(text_of_input(data, size), "some file");
    require(array.numel() > 0 && array.nbytes() <= size, "an array larger than its file");
  });
  return 0;
}
