// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gantrain {

// How many streams were asked for, as for each launch, inside and outside of an OnDevice
// (ops/gpu/table_cuda.h).
struct HostLaunches {
  int64_t guarded = 0, unguarded = 0;
};
HostLaunches& host_launches();

}  // namespace gantrain
