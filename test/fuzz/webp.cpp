// SPDX-License-Identifier: Apache-2.0
// WebP pictures.
#include "fuzz/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gantrain::read_picture(gantrain::text_of_input(data, size));
  return 0;
}
