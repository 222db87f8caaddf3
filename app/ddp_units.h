// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ddp_plan.h"

// Amounts on the command line of `gantrain bench ddp --simulate`. `flag` names the flag in errors;
// all throw UserError(kUsage) with what is allowed. No torch.

namespace gantrain {

// Returns bytes a second of "50", "50GB/s" (gigabytes) or "400Gb/s" (gigabits).
double bandwidth_of(const std::string& flag, const std::string& text);
// Returns the seconds of "10" or "10us" (microseconds); 0 is allowed.
double latency_of(const std::string& flag, const std::string& text);
// Reads "180" (an iteration), or "D=60,G=80,rest=5" (phases), in milliseconds.
std::vector<GivenTime> given_times_of(const std::string& flag, const std::string& text);

}  // namespace gantrain
