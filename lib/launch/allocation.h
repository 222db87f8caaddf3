// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launch/environment.h"
#include "launch/options.h"

namespace gantrain {

// When a run stops by itself because the time is up that a batch system has given it.
struct AllocationStop {
  std::optional<double> after;  // seconds from now until the run saves and stops; none: never
  std::string line;  // one line for the user that says when and why; "" if nothing to say
};

// Decides it from launch.time_margin and SLURM_JOB_END_TIME, which Slurm sets to the seconds since
// 1970 at which it will end the job; `now` counts the same way. Without that variable a run goes on
// until a signal stops it. The margin "auto" is five minutes, or a tenth of the time that is left
// where this is less, so that a short allocation trains too. Throws UserError(kEnvironment) if the
// variable is no number from 0. A pure function.
AllocationStop allocation_stop(const LaunchOptions& options, const Env& env, double now);

}  // namespace gantrain
