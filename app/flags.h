// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// A flag, which is an alias of a configuration key: --batch 8 is --set train.batch=8. `gantrain
// help flags` prints the table of flags.
struct Flag {
  const char* group;            // heading in --help
  const char* names;            // "--nproc,--nproc-per-node"; help shows the first
  const char* key;              // "launch.nproc"
  bool is_switch;               // may stand without a value: --mirror
  const char* alone = nullptr;  // the value without a given one; null: on
};

const std::vector<Flag>& flag_table();

// Returns the names of all flags of `gantrain train`, those without a key too: "--preset".
std::vector<std::string> training_flag_names();

// Returns the flag of a key: "--batch" for "train.batch", or "--set data.fit" where it has none.
std::string flag_of(const std::string& key);

}  // namespace gantrain
