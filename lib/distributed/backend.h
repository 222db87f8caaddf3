// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "distributed/group.h"
#include "distributed/options.h"
#include "util/rank_info.h"

namespace c10d {
class Backend;
class ProcessGroup;
class Store;
}  // namespace c10d

namespace gantrain {

struct BackendSettings {
  RankInfo ranks;                     // if ranks.nodes is 1, gloo uses the loopback interface
  std::chrono::milliseconds timeout;  // the longest that a collective may take
  // Of several nodes: the address at which gloo lets the others connect; "": it chooses. The
  // environment's GLOO_SOCKET_IFNAME goes before it.
  std::string address;
};

// Makes a process group with one backend, for tensors on `device`. gloo is part of libtorch_cpu;
// NCCL comes from the CUDA library (nccl.cpp), which must have been loaded. Throws what c10d
// throws.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    BackendKind backend,
    const c10::intrusive_ptr<c10d::Store>& store,
    const BackendSettings& settings,
    c10::Device device);

// What went through a group that make_process_group() has made.
Traffic traffic_of(const c10d::ProcessGroup& group, c10::Device device);

// The function that the CUDA library exports under this name. It returns a new reference, which the
// caller owns.
using MakeNccl = c10d::Backend* (*)(c10d::Store* store, const BackendSettings& settings);
inline constexpr const char* kMakeNccl = "gantrain_make_nccl";

}  // namespace gantrain
