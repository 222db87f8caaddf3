// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "config/config.h"
#include "config/value.h"
#include "util/rank_info.h"

namespace gantrain {

// Runs a measurement that uses LibTorch with that many threads, in a child of this process. This
// process must not call LibTorch itself.
Json in_child(int64_t threads, const std::function<Json(const Rendezvous&)>& measurement);

// Keeps freed memory as the trainer's ranks do. It is called once in a process that measures.
void keep_memory(const Config& config);

// Returns the bytes per second at which this process copies 64 MiB from one place in memory to
// another with LibTorch's threads, at best; read and written bytes count.
double copy_speed();

}  // namespace gantrain
