// SPDX-License-Identifier: Apache-2.0
// Pictures in TIFF and .npy files, by their first bytes.
#include "fuzz/picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gantrain::read_picture(gantrain::text_of_input(data, size));
  return 0;
}
