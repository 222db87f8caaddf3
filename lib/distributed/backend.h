// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>

#include "distributed/options.h"
#include "distributed/traffic.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace gantrain {

struct BackendSettings {
  int64_t rank, world;
  std::chrono::milliseconds timeout;
  bool one_node;
};

// A process group with one backend for `device`. gloo is part of libtorch_cpu; NCCL comes from the
// CUDA library (nccl.cpp), which must have been loaded. Throws what c10d throws.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    BackendKind backend,
    const c10::intrusive_ptr<c10d::Store>& store,
    const BackendSettings& settings,
    c10::Device device);

// Of a group that make_process_group made.
Traffic traffic_of(const c10d::ProcessGroup& group, c10::Device device);

// Exported by the CUDA library under this name. A new reference that the caller owns.
using MakeNccl = c10d::Backend* (*)(c10d::Store* store, const BackendSettings& settings);
inline constexpr const char* kMakeNccl = "gantrain_make_nccl";

}  // namespace gantrain
