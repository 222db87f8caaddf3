// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// A pair of networks whose gradients `gantrain bench ddp` synchronises.
struct DdpNet {
  std::string name;
  std::string about;
  std::string preset;
  std::vector<std::string> set;   // "key=value", over the preset
  int64_t batch = 1;              // of a rank
  std::vector<std::string> peer;  // arguments of scripts/peers/ddp.py for the same; empty: none
};

// Returns the built-in networks of these names, with commas between. Throws UserError(kUsage).
std::vector<DdpNet> ddp_nets(const std::string& names);

// Returns the configuration of so many ranks, without the synchronisation, which the benchmark
// sets: Config::to_json(). `batch` is the number of pictures of a rank, the net's own if left out.
Json ddp_config(const DdpNet& net, int64_t ranks, std::optional<int64_t> batch);

}  // namespace gantrain
