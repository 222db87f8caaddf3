// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace gantrain {

// Makes the visible GPU of that index LibTorch's current device, and takes kernels, graphs and the
// errors of waits for tensors on GPUs from the CUDA library (lib/ops/gpu), which must have been
// loaded. Call it once, before anything is computed. From now on the calling thread gives its work
// to a stream of its own, because work on the default stream cannot be recorded as a graph. Throws
// UserError(kEnvironment) if the library lacks something or its kernels are not made for that GPU.
c10::Device begin_on_gpu(int64_t index);

}  // namespace gantrain
