// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDAFunctions.h>

// A SetWaitErrors (core/device_waits.h) for GPUs: LibTorch's own sync-debug mode.
extern "C" void gantrain_cuda_sync_debug(bool on) {
  using c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_ERROR
                                                    : SyncDebugMode::L_DISABLED);
}
