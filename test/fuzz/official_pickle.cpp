// SPDX-License-Identifier: Apache-2.0
// The network pickles of StyleGAN2-ADA and StyleGAN3.
#include "exchange/official_pickle.h"

#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  accepts("some file", [&] { (void)read_official_pickle(text_of_input(data, size), "some file"); });
  return 0;
}
