// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/adam/adam_cpu.h"
#include "ops/bias_act/bias_act_cpu.h"
#include "ops/convolution/winograd_cpu.h"
#include "ops/filtered_lrelu/filtered_lrelu_cpu.h"
#include "ops/modulation/modulation_cpu.h"
#include "ops/norms/norms_cpu.h"
#include "ops/upfirdn2d/upfirdn2d_cpu.h"

namespace gantrain {

// The kernels of one instruction set. They are functions of plain float32 arrays, use no thread of
// their own, and each call computes a range of the result, so that the caller shares ranges out
// among threads. No result depends on how the ranges are cut.
struct CpuKernels {
  const char* name;  // "generic", "avx2", "avx512"
  BiasActKernels bias_act;
  FilteredLreluKernels filtered_lrelu;
  FirKernels fir;
  MinibatchStdKernels minibatch_std;
  ModulationKernels modulation;
  NormKernels norms;
  UpdateKernels update;
  WinogradKernels winograd;
};

// Returns the kernels for this processor. The environment variable GANTRAIN_CPU names another set,
// for tests and measurements; a set that the processor does not have is not taken.
const CpuKernels& cpu_kernels();

// All sets that this processor has, the simplest first.
struct CpuKernelSets {
  const CpuKernels* set[3];
  int count;
  const CpuKernels* const* begin() const { return set; }
  const CpuKernels* const* end() const { return set + count; }
};
CpuKernelSets available_cpu_kernels();

}  // namespace gantrain
