// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// Names of the CUDA library's functions that `gantrain doctor` calls, of type const char*(). What
// they return lives as long as the library.
using CudaLibraryText = const char* (*)();
// Architectures that its kernels are compiled for: "sm_80 sm_90 compute_100".
inline constexpr const char* kCudaArchitectures = "gantrain_cuda_architectures";
// A JSON object of versions, each "made for 13.0, found 13.0": CUDA's runtime, NCCL, cuDNN. Needs
// no GPU.
inline constexpr const char* kCudaVersions = "gantrain_cuda_versions";
// A JSON object: "devices", an array, and "peer access", the pairs of devices that read each
// other's memory, in words; or "error", CUDA's own reason for showing none. Starts CUDA in the
// calling process.
inline constexpr const char* kCudaDevices = "gantrain_cuda_devices";

}  // namespace gantrain
