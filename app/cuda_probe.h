// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// What `gantrain doctor` finds out about the CUDA library and those that it needs.
struct CudaProbe {
  bool built = false;
  std::vector<std::string> missing;  // libraries that the loader does not find
  std::string error;                 // why the CUDA library cannot be loaded; "" where it can
  std::string architectures;         // "sm_80 sm_90"; "" where it cannot be loaded
  Json versions = Json::object();    // name -> text, of cuda/library_info.h
  Json devices = Json::object();     // as there; empty where no GPU is visible
};

// Loads the library in a process of its own, so that a failure, a crash or a driver that answers
// nothing does no harm to this one. Takes seconds where the libraries are not in the disk's cache.
// CUDA is started only `with_devices`.
CudaProbe probe_cuda_library(bool with_devices);

}  // namespace gantrain
