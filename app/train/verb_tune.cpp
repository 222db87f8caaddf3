// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "command/options.h"
#include "main/verbs.h"
#include "train/racing.h"
#include "train/save/run_folder.h"
#include "train/training_words.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kTuneAbout =
    "Races trainings that differ in a few values: all train for a short while, the worse half is "
    "given up, the others go on for twice as long, the last one to the end. Stopped at any time, "
    "the same command goes on.";

struct TuneFlags {
  RaceWish wish = {.by = "swd", .folder = "runs/tune", .verb = "a race"};
  std::string folder = "runs/tune";
  bool dry_run = false;
};

template <class Field>
void fields(TuneFlags& o, Field&& field) {
  field(
      "tries",
      o.wish.tries,
      Said{.names = "--try", .value = "KEY=V,V"},
      "a key and the values to try: G.adam.lr=0.001,0.002, or gamma=auto*{0.25,1,4}, multiples of "
      "what the run would have; of several keys every combination races");
  field("by", o.wish.by, "the metric that decides (swd)");
  field("folder",
        o.folder,
        said("-o,--output"),
        "folder of the race: a run folder for each candidate, tune.json, compare.html (runs/tune)");
  field("extra",
        o.wish.extra,
        between(0.01, 100, "0.01 to 100"),
        "what all who lose may train together, as a share of one run's length (0.3)");
  field("dry_run", o.dry_run, "print the candidates and the plan, train nothing");
}

constexpr const char* kTuneFooter =
    "All other flags, and those after --, are those of gantrain train:\n"
    "  gantrain tune --try gamma=auto*{0.25,1,4} -o runs/gamma -- --preset stylegan2-ada \\\n"
    "    --data ~/photos --kimg 2000";

int run_tune(const std::vector<std::string>& arguments) {
  TuneFlags flags;
  Options options(kTuneAbout, "gantrain tune");
  options.add(flags);
  options.app().footer(kTuneFooter);
  const auto words = training_words(options, arguments);
  if (!words) return 0;
  if (flags.wish.tries.empty()) {
    fail(Exit::kUsage,
         "tune: what is to be tried? {} tune --try gamma=auto*{{0.25,1,4}} -- FLAGS",
         program());
  }
  flags.wish.folder = flags.folder;
  flags.wish.words = *words;
  flags.wish.command = command_line();
  std::optional<PlannedRace> planned = plan_race(flags.wish);
  if (!planned) return 0;
  const std::string plan =
      plan_text(planned->race, static_cast<int64_t>(planned->site.places.size()));
  go_on_with(*planned);
  Race& race = planned->race;
  if (flags.dry_run) {
    fmt::print("{}folder {}\n", plan, flags.folder);
    return 0;
  }
  if (race.winner.empty()) {
    for (const std::string& line : split(trim(plan), '\n')) info("race    {}", line);
    Children children;
    const int stop = drive_race(race, planned->site, children, /*to_the_end=*/true);
    if (stop != 0) {
      info("next    {}", race.command);
      return stop;
    }
  }
  const std::filesystem::path folder = flags.folder;
  for (const std::string& line : standings(race)) info("race    {}", line);
  info("page    {}", (folder / "compare.html").string());
  info("next    {}", generate_command((folder / race.winner).string()));
  fmt::print("{}\n", (folder / race.winner).string());
  return 0;
}

}  // namespace

Verb tune_verb() {
  const auto describe = [] { return description_of<TuneFlags>("tune", kTuneAbout); };
  return {
      "tune", "race values against each other: --try gamma=auto*{0.25,1,4}", describe, run_tune};
}

}  // namespace gantrain
