// SPDX-License-Identifier: Apache-2.0
#include "util/heap.h"

#include <malloc.h>

#include <cstdlib>
#include <initializer_list>

namespace gantrain {

namespace {

#ifdef __GLIBC__
bool user_decides() {
  for (const char* name : {"GLIBC_TUNABLES",
                           "MALLOC_MMAP_THRESHOLD_",
                           "MALLOC_MMAP_MAX_",
                           "MALLOC_TRIM_THRESHOLD_",
                           "MALLOC_TOP_PAD_"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}
#endif

}  // namespace

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargest = 32 << 20;  // that mallopt takes; larger ones are the kernel's
  if (user_decides()) return;
  mallopt(M_MMAP_THRESHOLD, kLargest);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

}  // namespace gantrain
