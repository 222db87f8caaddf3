// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>

#include "distributed/group.h"

namespace gantrain {

// The device on which the tensors of the group's calls must be. With one rank nothing is sent, so
// any device will do, and this is the CPU.
c10::Device device_of(const Group& group);

// From now on the number of collectives that this rank has entered is also kept in `counter`, where
// a launcher can read it. The counter must live longer than the group. With one rank this does
// nothing.
void publish_collectives(const Group& group, std::atomic<int64_t>& counter);

// Throws std::logic_error that names the call and both devices if the tensor is on another device
// than the group. NCCL takes tensors of its own GPU alone.
void check_on_group_device(const char* call, c10::Device tensor, c10::Device group);

}  // namespace gantrain
