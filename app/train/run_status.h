// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "config/config.h"
#include "launch/local/supervise.h"

namespace gantrain {

// Returns true if run.run_dir holds a run that has reached train.kimg, and then says so first.
bool already_done(const Config& config);

// What the command line says about a run.
struct CommandPlace {
  std::string command;  // the whole command line
  std::string run_dir;  // run.run_dir, "" if it was not given
};

// Writes down how an attempt ended, so that the reason is on disk where nobody reads standard
// error: what the launcher has said in log.txt (on other nodes log-rank<k>.txt, k their first
// rank), an errors/rank<k>.json for each rank that failed, STATUS, and the file that
// TORCHELASTIC_ERROR_FILE names. Removes errors/pids.json. A run that has ended before its folder
// was known is written down in the one that the command line names, unless another run is at work
// there. It never throws: if something cannot be written, it warns once.
void record_end(const AttemptEnd& end, const CommandPlace& place);

// The same for what was wrong before a rank was started, such as a port in use.
void record_refusal(const World& world, const UserError& error, const CommandPlace& place);

}  // namespace gantrain
