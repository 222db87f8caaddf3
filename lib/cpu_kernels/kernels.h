// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu_kernels/bias_act.h"
#include "cpu_kernels/filtered_lrelu.h"
#include "cpu_kernels/fir.h"
#include "cpu_kernels/minibatch_std.h"
#include "cpu_kernels/modulation.h"
#include "cpu_kernels/norms.h"
#include "cpu_kernels/update.h"
#include "cpu_kernels/winograd.h"

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
};
CpuKernelSets available_cpu_kernels();

}  // namespace gantrain
