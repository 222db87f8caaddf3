// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace gantrain {

// Starts a process below this one that does nothing until this one dies, however it dies, and then
// does `work` and ends. It is called gantrain-guard. Its standard streams are /dev/null and no
// other file is open in it, it takes no signals, and those who look at it from outside find no
// environment. Where no process can be started there is none. To be called from the main thread of
// a process that has no others.
void start_survivor(const std::function<void()>& work);

}  // namespace gantrain
