// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device.h"

namespace gantrain {

// While it lives, tensors on a CPU have device graphs, made of a tape: every operator below
// autograd that a recorded work calls is noted with its arguments, and replay() calls the same
// operators with the same tensors and numbers, which writes the same memory. So a number of the
// host, a branch on a value or a tensor at another address shows as it would on a GPU: the replay
// goes on with what was true when it was recorded. As on a GPU, recording changes no tensor, and
// reading one while recording throws c10::Error. The kernels of the device's table
// (ops/device_kernels.h) are noted in the same way; the CPU's own arithmetic outside of both, as
// for convolutions, is not, so networks must take a GPU's paths (AssumeReadsWait). One at a time.
class TapeGraphs {
 public:
  TapeGraphs();
  ~TapeGraphs();
  TapeGraphs(const TapeGraphs&) = delete;
  TapeGraphs& operator=(const TapeGraphs&) = delete;

  static int64_t recorded();  // works recorded while it has lived
  static int64_t replayed();  // calls of replay()
  // From now on recording throws c10::Error at its n-th operator; 0: no more. `of_memory`: it is a
  // c10::OutOfMemoryError.
  static void fail_at(int64_t operators, bool of_memory = false);
};

}  // namespace gantrain
