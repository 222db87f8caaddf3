// SPDX-License-Identifier: Apache-2.0
#include "launch/idle_threads.h"

namespace gantrain {

IdleThreads idle_threads(const Env& env) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}) {
    const auto said = env.find(name);
    if (said == env.end() || said->second.empty()) continue;
    return {{}, std::string("idle threads wait as ") + name + "=" + said->second + " says"};
  }
  return {{{"OMP_WAIT_POLICY", "passive"}},
          "idle threads sleep at once (OMP_WAIT_POLICY=passive; active is for a machine that does "
          "nothing else)"};
}

}  // namespace gantrain
