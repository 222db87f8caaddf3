// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench_record.h"
#include "config/value.h"
#include "train/step_bench.h"

namespace gantrain {

// What the time of iterations went to: sums over `steps` iterations in each of which all phases
// ran.
struct StepProfile {
  StepTimes times;
  std::vector<OperatorTime> operators;
  double steps = 1;
  double system = 0;  // seconds that the kernel spent for the process, in all these iterations
  double faults = 0;  // page faults, in all these iterations
};

// Sums up by operator, the longest first. Seconds are of a mean iteration, to which a phase adds
// its time divided by its interval; calls are of an iteration with all phases. The last row is what
// is spent outside operators. Each row has "shapes", its longest few.
Json summary_of(const StepProfile& profile);

// Prints what summary_of() returns as a table.
void print_profile(const Json& summary);

}  // namespace gantrain
