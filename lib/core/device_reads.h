// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// Whether the host can read a tensor of that device without waiting; true on a CPU. On other
// devices a read waits until all work given to the device is done, so code that runs in every
// iteration keeps its numbers on the device instead of reading them.
bool reads_are_free(at::Device device);

// Returns the only number of a one-element tensor of any type on the CPU, read from its memory.
double read_free(const at::Tensor& tensor);

// While this object lives, the process's CPU counts, on all threads, as a device whose reads wait.
// So tests run the code paths of a GPU without one.
class AssumeReadsWait {
 public:
  AssumeReadsWait();
  ~AssumeReadsWait();
  AssumeReadsWait(const AssumeReadsWait&) = delete;
  AssumeReadsWait& operator=(const AssumeReadsWait&) = delete;
};

}  // namespace gantrain
