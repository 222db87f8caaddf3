// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace gantrain {

// Starts a thread that blocks all signals from its first instruction on, so that signals reach the
// thread that handles them. `body` must not throw.
std::thread start_worker(std::function<void()> body);

}  // namespace gantrain
