// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gantrain {

// The flags of `gantrain bench ddp --simulate N`, as they were written.
struct PlanFlags {
  int64_t ranks = 0;  // 0: nothing is simulated
  std::string bandwidth = "50GB/s", latency = "10us";
  std::string local_bandwidth = "450GB/s", local_latency = "1us";
  int64_t ranks_per_node = 8;
  std::string preset, from, compute;
  std::vector<std::string> set;
  double graphs_save_ms = 0;
  std::optional<int64_t> global_batch;
  bool check = false;
};

// Adds them to the flags of `gantrain bench ddp`.
void add_plan_flags(CLI::App& app, PlanFlags& flags);

// What the plan takes from the other flags of `gantrain bench ddp`.
struct PlanNets {
  std::string names;
  std::optional<int64_t> batch;
  int64_t steps = 4;
  bool json = false;
};

// Whether the command line asks for a plan. Throws UserError(kUsage) that names a flag which does
// not go with the others.
bool wants_plan(const CLI::App& app, const PlanFlags& flags);

// Returns the exit status; throws UserError.
int plan_ddp(const PlanFlags& flags, const PlanNets& nets);

}  // namespace gantrain
