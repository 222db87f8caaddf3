// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "tune/race.h"

namespace gantrain {

// What the verbs that race candidates ask for.
struct RaceWish {
  std::vector<std::string> tries;  // the words of --try
  std::string by;                  // a metric
  double extra = 0.3;              // kimg of those who lose, as a share of one run's
  std::filesystem::path folder;
  std::vector<std::string> words;  // the training's
  std::string command;             // the command line
  std::string verb;                // "a race"
};

struct PlannedRace {
  Race race;
  RaceSite site;
  Config config;  // of the training without what is tried
};

// Plans a race on this machine; nothing where the training's words ask for --help, which is printed
// then. Throws UserError for what `gantrain train` would refuse of each candidate, for flags that
// the race decides, and for a metric that it cannot measure.
std::optional<PlannedRace> plan_race(const RaceWish& wish);

// Takes over where the race in the folder stands, if it has begun. Throws UserError(kUsage) where
// that is another one.
void go_on_with(PlannedRace& planned);

}  // namespace gantrain
