// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/environment.h"

namespace gantrain {

// How the threads that LibTorch computes with (GNU OpenMP's) wait for work. As they come they spin
// for some 10 ms before they sleep; beside other busy programs they then take the very cores that
// the rest of their own team needs.
struct IdleThreads {
  Env variables;     // to be set before LibTorch is loaded; empty where the user has set his own
  std::string text;  // for the dry run: "idle threads sleep at once (OMP_WAIT_POLICY=passive)"
};

// Decides from the environment: a user's OMP_WAIT_POLICY or GOMP_SPINCOUNT is obeyed.
IdleThreads idle_threads(const Env& env);

}  // namespace gantrain
