// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/safetensors.h"
#include "distributed/group.h"

namespace gantrain {

class TrainingStep;

// Where training stands, beside the tensors. Nothing else is needed: data order and every random
// draw are functions of the seed and these counters.
struct Counters {
  int64_t images_seen = 0;
  int64_t iteration = 0;
  int64_t tick = 0;
  double seconds = 0;  // trained so far, over all sessions
  // Of a network that grows: number of the stage that was trained last, and its name for messages.
  int64_t stage = 0;
  std::string stage_name;
};

void save_state(const std::filesystem::path& path,
                const NamedTensors& state,
                const Counters& counters,
                const Config& config);

// The generator's average under its own names, then the raw networks as "G.*" and "D.*".
void save_model(const std::filesystem::path& path,
                const TrainingStep& step,
                const Counters& counters);

// Rank 0: the newest state of a run folder (or the named file) that passes its checksum, put into
// `state` and `counters`. Returns its path, "" if there is none. Broken ones are warned about and
// passed over in a folder; a broken named file is UserError(kInput). Configuration that differs
// where it must not: UserError(kUsage) listing the keys, unless `force` names them.
std::filesystem::path load_newest(const std::filesystem::path& folder_or_file,
                                  const NamedTensors& state,
                                  Counters& counters,
                                  const Config& config,
                                  const std::string& force);

// Sends rank 0's tensors and counters to all ranks; false if rank 0 says that nothing was loaded.
bool share_state(Group& group, bool loaded, const NamedTensors& state, Counters& counters);

}  // namespace gantrain
