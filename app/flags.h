// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// A flag is an alias of a configuration key: --batch 8 is --set train.batch=8. `gantrain help
// flags` prints this table.
struct Flag {
  const char* group;            // heading in --help
  const char* names;            // "--nproc,--nproc-per-node": the first is the one that help shows
  const char* key;              // "launch.nproc"
  bool is_switch;               // may stand without a value: --mirror
  const char* alone = nullptr;  // the value that it then has; null: on
};

const std::vector<Flag>& flag_table();

// "--batch" for "train.batch", "--set data.fit" where a key has no flag.
std::string flag_of(const std::string& key);

}  // namespace gantrain
