// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace gantrain {

// Where a training is to run that is planned here.
struct TrainingSite {
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;
  bool on_gpu = false;
};

// Returns the configuration that `words`, the arguments of `gantrain train`, make; nothing if they
// ask for --help, which is printed then. Throws UserError(kUsage) for words that `train` would
// refuse, and for those that make no run of their own, such as --dry-run.
std::optional<Config> planned_config(const std::vector<std::string>& words);

// Checks all that can be checked without data and devices. Throws UserError as `gantrain train`
// would there.
void check_training(Config config, const TrainingSite& site);

}  // namespace gantrain
