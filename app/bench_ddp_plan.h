// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench_requests.h"
#include "ddp_plan.h"

namespace gantrain {

// `bench ddp --simulate`: measure what one rank does, and say what more ranks would take. Of each
// net, worlds[0] is one rank; the others are what the model is checked against. Peers are not used.
struct BenchDdpPlanRequest {
  std::vector<BenchNet> nets;
  PlanRequest plan;
  int64_t steps = 4;  // timed iterations of a measurement
  bool json = false;  // one JSON line, last on standard output
};

template <class Field>
void fields(BenchDdpPlanRequest& o, Field&& field) {
  field("nets", o.nets);
  field("plan", o.plan);
  field("steps", o.steps);
  field("json", o.json);
}

// Returns the exit status; throws UserError.
int bench_ddp_plan(const BenchDdpPlanRequest& request);

}  // namespace gantrain
