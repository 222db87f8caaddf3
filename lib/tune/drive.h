// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tune/children.h"
#include "tune/race.h"

namespace gantrain {

// Where a race is run.
struct RaceSite {
  std::filesystem::path folder;     // of the race; each candidate has a run folder in it
  std::vector<std::string> places;  // CUDA_VISIBLE_DEVICES of each candidate that may train at a
                                    // time; one "" on a CPU: the environment's own
  // Flags of the training beside the race's: of every run, and of those that still race alone.
  std::vector<std::string> more, while_racing = {};
};

// The places for candidates of `ranks` GPUs each among `gpus` that are visible by `visible`
// (CUDA_VISIBLE_DEVICES, "" where it is not set); one without a GPU.
std::vector<std::string> race_places(int64_t gpus, int64_t ranks, const std::string& visible);

// The arguments of the program for a candidate's training up to a rung.
std::vector<std::string> arguments_of(const Race& race,
                                      const RaceSite& site,
                                      size_t racer,
                                      size_t rung);

// Runs a race from where it stands, `to_the_end` or until the winner alone is left, who then has
// the last rung before it. tune.json and compare.html in the folder follow. Returns 0, or the exit
// code of a stop, after which the same call goes on. Throws UserError where no candidate is left,
// and where a run ends by what is no candidate's fault.
int drive_race(Race& race, const RaceSite& site, Children& children, bool to_the_end);

// The one who is left, or has won. There must be one.
const Racer& winner_of(const Race& race);

}  // namespace gantrain
