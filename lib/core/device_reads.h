// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Whether the host can read a tensor of that device without waiting: true on a CPU. Elsewhere a
// read waits until all work given to the device is done, so code that runs in every iteration keeps
// its numbers on the device instead of asking for them.
bool reads_are_free(at::Device device);

// The only number of a tensor on the CPU, read from its memory. Any type.
double read_free(const at::Tensor& tensor);

// While it lives, this process's CPU counts as a device whose reads wait, on all threads: so tests
// run the paths of a GPU without one.
class AssumeReadsWait {
 public:
  AssumeReadsWait();
  ~AssumeReadsWait();
  AssumeReadsWait(const AssumeReadsWait&) = delete;
  AssumeReadsWait& operator=(const AssumeReadsWait&) = delete;
};

}  // namespace gantrain
