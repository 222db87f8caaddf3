// SPDX-License-Identifier: Apache-2.0
// Plays the user-mode library of a driver, libcuda.so.1, which supports the CUDA that
// GANTRAIN_STUB_CUDA names, else 13.0.
#include <cstdlib>

extern "C" int cuDriverGetVersion(int* version) {
  const char* wanted = std::getenv("GANTRAIN_STUB_CUDA");
  *version = wanted == nullptr ? 13000 : std::atoi(wanted);
  return 0;
}
