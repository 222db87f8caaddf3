// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set.
#include "ops/vector/cpu_kernels.h"

#define GANTRAIN_TEXT(name) #name
#define GANTRAIN_NAME(name) GANTRAIN_TEXT(name)

namespace gantrain::GANTRAIN_ISA {

BiasActKernels bias_act_kernels();
FilteredLreluKernels filtered_lrelu_kernels();
FirKernels fir_kernels();
MinibatchStdKernels minibatch_std_kernels();
ModulationKernels modulation_kernels();
NormKernels norm_kernels();
UpdateKernels update_kernels();
WinogradKernels winograd_kernels();

const CpuKernels& table() {
  static const CpuKernels kernels{
      .name = GANTRAIN_NAME(GANTRAIN_ISA),
      .bias_act = bias_act_kernels(),
      .filtered_lrelu = filtered_lrelu_kernels(),
      .fir = fir_kernels(),
      .minibatch_std = minibatch_std_kernels(),
      .modulation = modulation_kernels(),
      .norms = norm_kernels(),
      .update = update_kernels(),
      .winograd = winograd_kernels(),
  };
  return kernels;
}

}  // namespace gantrain::GANTRAIN_ISA
