// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "config/config.h"

namespace gantrain {

class TrainingStep;

struct PauseBench {
  TrainingStep& step;
  const Config& config;
  int64_t rounds = 5;
  std::filesystem::path folder;  // on the disk to be measured
};

// Measures what training sees of a save whose files are written in the background, on random
// pictures on the CPU. Returns "bytes" that are copied, and per round "pause" (seconds until the
// step may go on), "memcpy" (of as many bytes into warm memory), "write" (seconds until the files
// are on the disk), "step_alone", "step_beside" (seconds of an iteration without and beside the
// writing), with "pause_of_memcpy" and "step_of_alone", the medians of their quotients.
Json measure_pause(const PauseBench& bench);

// Prints that in three lines.
void print_pause(const Json& pause);

}  // namespace gantrain
