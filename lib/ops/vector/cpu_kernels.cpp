// SPDX-License-Identifier: Apache-2.0
#include "ops/vector/cpu_kernels.h"

#include <cstdlib>
#include <string_view>

namespace gantrain {

namespace generic {
const CpuKernels& table();
}
#if defined(__x86_64__)
namespace avx2 {
const CpuKernels& table();
}
namespace avx512 {
const CpuKernels& table();
}
#endif

CpuKernelSets available_cpu_kernels() {
  CpuKernelSets sets{{&generic::table()}, 1};
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2) sets.set[sets.count++] = &avx2::table();
  if (has_avx512) sets.set[sets.count++] = &avx512::table();
#endif
  return sets;
}

namespace {

// The one that GANTRAIN_CPU names, else the best.
const CpuKernels& chosen() {
  const CpuKernelSets sets = available_cpu_kernels();
  const char* wanted = std::getenv("GANTRAIN_CPU");
  for (int i = 0; wanted != nullptr && i < sets.count; ++i) {
    if (std::string_view(sets.set[i]->name) == wanted) return *sets.set[i];
  }
  return *sets.set[sets.count - 1];
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels& kernels = chosen();
  return kernels;
}

}  // namespace gantrain
