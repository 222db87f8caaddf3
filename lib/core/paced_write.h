// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "util/file.h"

namespace gantrain {

// What the writer of a large file does after each piece of it, such as letting other threads go
// first.
using BetweenWrites = std::function<void()>;

// Writes all of it, in pieces of at most 4 MB with a call of `between` after each. An empty
// `between` is not called.
void write_paced(AtomicFile& file, const void* data, size_t bytes, const BetweenWrites& between);

}  // namespace gantrain
