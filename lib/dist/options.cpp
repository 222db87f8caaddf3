// SPDX-License-Identifier: Apache-2.0
#include "dist/options.h"

#include "util/error.h"

namespace gantrain {

BackendKind choose_backend(BackendKind asked, bool on_gpu, bool nccl_built) {
  if (asked == BackendKind::kAuto) {
    return on_gpu && nccl_built ? BackendKind::kNccl : BackendKind::kGloo;
  }
  if (asked == BackendKind::kNccl && !on_gpu) {
    fail(Exit::kEnvironment,
         "--backend nccl needs GPUs, this run is on CPUs; use --backend gloo or auto");
  }
  if (asked == BackendKind::kNccl && !nccl_built) {
    fail(Exit::kEnvironment,
         "--backend nccl: this build has no CUDA library; build with GANTRAIN_CUDA=ON");
  }
  return asked;
}

}  // namespace gantrain
