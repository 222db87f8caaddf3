// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "command/flags.h"
#include "command/options.h"
#include "config/resolve.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "main/verbs.h"
#include "train/options.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
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
        "total training of all losing candidates, as a fraction of one run's length (0.3)");
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
  FolderLock lock;
  if (race.winner.empty()) {
    take_folder(flags.wish.folder, "race", lock);
    go_on_with(*planned);  // where another process had the race meanwhile
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
  return {"tune",
          "compare settings in a race of short runs: --try gamma=auto*{0.25,1,4}",
          describe,
          run_tune};
}

namespace {

// What the race itself decides of each run.
void refuse_flags_of_the_race(const Config& config, const RaceWish& wish) {
  for (const char* key : {"run.out", "run.run_dir", "launch.nnodes"}) {
    if (!config.given(key)) continue;
    fail(Exit::kUsage,
         "{}: leave it out; {} runs on this machine, in the folder that -o names",
         flag_of(key),
         wish.verb);
  }
  if (text_of(config.get("run.resume")) != "auto")
    fail(Exit::kUsage, "--resume: leave it out; the same command goes on with {}", wish.verb);
}

// The keys of --try in full.
std::vector<Tried> full_tries(const RaceWish& wish, const Config& config) {
  std::vector<Tried> tries = parse_tries(wish.tries);
  for (Tried& tried : tries) {
    tried.key = full_key(config, tried.key, {});
    check_key(config, tried.key, "--try");
    const bool decided = is_among(tried.key,
                                  {"run.",
                                   "launch.",
                                   "train.kimg",
                                   "metrics.",
                                   "preset",
                                   "data.path",
                                   "data.resolution",
                                   "data.channels",
                                   "data.depth"});
    if (decided || tried.key == "recipe")
      fail(Exit::kUsage, "--try {}: that is the same for all candidates of a race", tried.key);
  }
  return tries;
}

// The metrics of the training, and the race's own.
std::string names_with(const std::string& metric, const Config& config) {
  std::vector<std::string> names =
      metric_names(config.read<MetricsOptions>(), config.read<SaveOptions>());
  if (!contains(names, metric)) names.push_back(metric);
  return join(names, ",");
}

// What every run of the race is told beside the words of the user.
std::vector<std::string> flags_of_all(const std::string& metric, const Config& config) {
  std::vector<std::string> more = {"--set", "metrics.names=" + names_with(metric, config)};
  if (!config.read<MetricsOptions>().at_end)
    more.insert(more.end(), {"--set", "metrics.at_end=on"});
  if (log_console_level() == Level::kWarning) more.emplace_back("-q");
  return more;
}

// Each candidate must be what a run may be.
void check_candidates(const RaceWish& wish, const std::vector<Candidate>& candidates, bool on_gpu) {
  const Level level = log_console_level();
  set_log({.console = Level::kWarning});  // what a run says of its flags was said once
  for (const Candidate& candidate : candidates) {
    std::vector<std::string> words = wish.words;
    for (const std::string& pair : candidate.sets) words.insert(words.end(), {"--set", pair});
    Config config = planned_config(words, wish.verb).value().config;
    config.set("metrics.names", names_with(wish.by, config), "--by");
    check_training(
        config,
        {.ranks_per_node = config.read<LaunchOptions>().nproc.value_or(1), .on_gpu = on_gpu});
  }
  set_log({.console = level});
}

}  // namespace

std::optional<PlannedRace> plan_race(const RaceWish& wish) {
  find_metric(wish.by);
  const auto planned = planned_config(wish.words, wish.verb);
  return planned ? std::optional(plan_race(wish, planned->config)) : std::nullopt;
}

PlannedRace plan_race(const RaceWish& wish, Config config) {
  refuse_flags_of_the_race(config, wish);
  const std::vector<Tried> tries = full_tries(wish, config);  // typing errors come first
  config.set("metrics.names", names_with(wish.by, config), "--by");
  config.set("run.out", wish.folder.string(), "-o");
  const bool given = config.given("launch.nproc");
  PlannedTraining training = plan_training(config);
  const bool on_gpu = training.device == DeviceKind::kCuda;
  if (on_gpu && !given) {  // what is "auto" is that of one GPU, too
    config.set("launch.nproc", 1, "a GPU for each candidate");
    training = plan_training(config);
  }
  const auto train = training.config.read<TrainOptions>();
  const std::vector<Candidate> candidates = make_candidates(tries, training.config);
  check_candidates(wish, candidates, on_gpu);

  PlannedRace planned{.race = {.command = wish.command, .flags = wish.words, .metric = wish.by},
                      .site = {.folder = wish.folder},
                      .config = training.config};
  planned.race.rungs = plan_rungs(static_cast<int64_t>(candidates.size()),
                                  train.kimg.images,
                                  wish.extra,
                                  train.batch,
                                  wish.advice);
  for (const Candidate& candidate : candidates) planned.race.racers.push_back({candidate});
  const int64_t ranks = config.read<LaunchOptions>().nproc.value_or(1);
  planned.site.places = race_places(
      on_gpu ? training.gpus : 0, ranks, variable(current_environment(), "CUDA_VISIBLE_DEVICES"));
  planned.site.more = flags_of_all(wish.by, config);
  if (on_gpu && !given) planned.site.more.insert(planned.site.more.end(), {"--nproc", "1"});
  if (!config.given("metrics.stop_on")) planned.site.while_racing = {"--stop-on", "collapse"};
  return planned;
}

void take_folder(const fs::path& folder, const std::string& what, FolderLock& lock) {
  try {
    lock.take(folder);
  } catch (const UserError& e) {
    if (e.code() != Exit::kUsage) throw;
    fail(Exit::kUsage,
         "{}: another {} is at work there; wait for its end, or give another -o",
         folder.string(),
         what);
  }
}

void go_on_with(PlannedRace& planned) {
  const auto before = read_race(planned.site.folder);
  if (!before || !has_begun(*before, planned.site.folder)) return;
  const std::string differs = difference(*before, planned.race);
  if (!differs.empty()) {
    fail(Exit::kUsage,
         "{} holds another race: {} differ; -o another folder begins a new one, the command that "
         "goes on with that one is {}",
         planned.site.folder.string(),
         differs,
         before->command);
  }
  planned.race = *before;
}

}  // namespace gantrain
