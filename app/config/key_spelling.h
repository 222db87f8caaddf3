// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace gantrain {

// Returns the full path of a key that was given in short: "gamma" is the recipe's weight of R1,
// "channel_base" the recipe's key of that name, "G.lr" the rate of the optimizer that G has, which
// `pairs` ("G.optimizer=sgd", later ones win) may choose. Returns other paths unchanged. Throws
// UserError(kUsage) for "gamma" where the recipe has none.
std::string full_key(const Config& config,
                     const std::string& path,
                     const std::vector<std::pair<std::string, std::string>>& pairs);

// Refuses keys that this run does not have with more than Config can say: which recipe has such a
// key, or which keys end so. `path` is one key; a tree is that of a file. Throws UserError(kUsage).
void check_key(const Config& config, const std::string& path, const std::string& origin);
void check_keys(const Config& config, const Json& tree, const std::string& origin);
// The same for GANTRAIN_* variables, which say keys in any case.
void check_keys(const Config& config, const std::map<std::string, std::string>& environment);

}  // namespace gantrain
