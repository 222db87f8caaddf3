// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "command/options.h"
#include "config/resolve.h"
#include "data/options.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "recipes/facts.h"
#include "train/options.h"
#include "train/racing.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
#include "train/training_words.h"
#include "tune/finetune.h"
#include "tune/starting_model.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kFinetuneAbout =
    "Trains a model on with your own, few pictures: chooses length, fixed layers of D, "
    "augmentation and cadence by how many there are, keeps the best model by a metric, goes back "
    "to the best state with half the rates where quality falls for long or pictures collapse (at "
    "most twice), and ends where nothing improves. Stopped at any time, the same command goes on.";

struct FinetuneFlags {
  std::string data;
  std::string from;
  std::string by = "swd";
  std::string gamma;
  std::string folder = "runs/finetune";
  bool enlarge = false;
  bool dry_run = false;
};

template <class Field>
void fields(FinetuneFlags& o, Field&& field) {
  field("data", o.data, said("PHOTOS"), "your pictures: a folder or an archive");
  field("from", o.from, "the model: a run folder, a model file or an official pickle");
  field("by", o.by, "the metric that decides what is best (swd)");
  field("gamma",
        o.gamma,
        "weight of the R1 penalty; auto: the best of the model's value, a quarter of it and four "
        "times it, by a race of short runs");
  field("folder", o.folder, said("-o,--output"), "folder: the run, finetune.json (runs/finetune)");
  field("enlarge", o.enlarge, "take pictures of half the model's size or less, too");
  field("dry_run", o.dry_run, "print what is chosen and why, train nothing");
}

constexpr const char* kFinetuneFooter =
    "All other flags, and those after --, are those of gantrain train, and override what is "
    "chosen:\n"
    "  gantrain finetune ~/photos --from runs/faces -o runs/photos -- --kimg 300";

constexpr const char* kRunName = "run";

std::vector<std::string> keys_of_recipe(const std::string& recipe) {
  find_recipe_facts(recipe);  // refuses an unknown one
  std::vector<std::string> keys;
  for (const Key& key : full_schema(recipe)) keys.push_back(key.path);
  return keys;
}

// The file that --from names; in a folder that is no run's, the weights that were downloaded.
fs::path file_of(const std::string& from) {
  std::error_code error;
  const bool run = !find_models(from).empty() || fs::exists(fs::path(from) / "config.json", error);
  return fs::is_directory(from, error) && !run ? weights_of_snapshot(from) : fs::path(from);
}

// The model as files that a training begins at: a pickle is imported into the folder, under a name
// that its content decides, once.
fs::path importable(const FinetuneFlags& flags, const fs::path& folder) {
  const fs::path from = file_of(flags.from);
  if (!is_pickle(from.string())) return from;
  std::error_code error;
  if (!fs::is_regular_file(from, error)) fail(Exit::kInput, "{}: no such file", from.string());
  const std::string hash = sha256(read_file(from)).substr(0, 12);
  fs::path imported = folder / ("from-" + hash + ".safetensors");
  if (fs::exists(imported, error)) return imported;
  make_writable_folder(folder);
  Children children;
  children.start(0, {.arguments = {"import", from.string(), "-o", imported.string(), "-q"}});
  const Children::End end = children.wait();
  if (children.stop_signal() != 0)
    throw UserError(static_cast<Exit>(code_of_stop(children.stop_signal())),
                    "stopped while the pickle was imported");
  if (end.code != 0) fail(static_cast<Exit>(end.code), "{}: could not be imported", flags.from);
  return imported;
}

// The words that make the model's networks, whatever the pictures are.
std::vector<std::string> words_of_model(const StartingModel& model) {
  std::vector<std::string> words;
  if (!model.preset.empty()) words = {"--preset", model.preset};
  if (model.preset.empty()) words = {"--set", "recipe=" + model.recipe};
  for (const std::string& pair : model.sets) words.insert(words.end(), {"--set", pair});
  words.insert(words.end(), {"--init-from", model.path.string()});
  words.insert(words.end(), {"--resolution", to_text(model.resolution)});
  words.insert(words.end(), {"--cond", model.classes > 0 ? "on" : "off"});
  if (model.channels > 0)
    words.insert(words.end(), {"--set", "data.channels=" + std::to_string(model.channels)});
  if (model.depth == 16) words.insert(words.end(), {"--set", "data.depth=16"});
  return words;
}

// A configuration whose messages have been said, or are said later.
Config config_of(const std::vector<std::string>& words) {
  const Level level = log_console_level();
  set_log({.console = Level::kWarning});
  Config config = planned_config(words, "finetuning").value();
  set_log({.console = level});
  return config;
}

// What finetuning itself decides, said by --set.
void refuse_what_is_decided(const Config& config,
                            const FinetuneFlags& flags,
                            const StartingModel& model) {
  const auto refuse = [](const std::string& key) {
    fail(Exit::kUsage, "{} behind finetune: leave it out; PHOTOS, --from and -o say it", key);
  };
  for (const char* key : {"run.out", "run.run_dir", "launch.nnodes"}) {
    if (config.given(key)) refuse(key);
  }
  for (const auto& [key, value] : {std::pair("recipe", model.recipe),
                                   std::pair("run.resume", std::string("auto")),
                                   std::pair("run.init_from", model.path.string()),
                                   std::pair("data.path", flags.data)}) {
    if (text_of(config.get(key)) != value) refuse(key);
  }
}

// The metric that decides is measured, whatever the user has measured beside it.
void add_metric(const std::string& metric, const Config& config, std::vector<std::string>& words) {
  std::vector<std::string> names =
      metric_names(config.read<MetricsOptions>(), config.read<SaveOptions>());
  if (std::ranges::find(names, metric) != names.end()) return;
  names.push_back(metric);
  words.insert(words.end(), {"--set", "metrics.names=" + join(names, ",")});
}

struct FinetunePlan {
  StartingModel model;
  int64_t pictures = 0;
  std::vector<FinetuneChoice> choices;
  std::vector<std::string> words;  // of the training
};

FinetunePlan plan_finetuning(const FinetuneFlags& flags,
                             const fs::path& from,
                             const std::vector<std::string>& own) {
  FinetunePlan plan{.model = read_starting_model(from, keys_of_recipe)};
  plan.words = words_of_model(plan.model);
  plan.words.insert(plan.words.end(), {"--data", flags.data});
  std::vector<std::string> all = plan.words;
  all.insert(all.end(), own.begin(), own.end());
  const Config config = config_of(all);
  refuse_what_is_decided(config, flags, plan.model);
  const PictureSizes sizes = look_at_data(config.to_json());
  plan.pictures = sizes.pictures;
  if (sizes.pictures < 2)
    fail(Exit::kInput,
         "{}: {}; finetuning takes some tens at least",
         flags.data,
         counted(sizes.pictures, "picture"));
  const std::string small = enlargement_warning(sizes, config.read<DataOptions>());
  if (!small.empty() && !flags.enlarge)
    fail(Exit::kInput, "{}: smaller than the model: {} (--enlarge takes them)", flags.data, small);
  plan.choices = finetune_choices(config, plan.model, plan.pictures, flags.by);
  for (const FinetuneChoice& choice : plan.choices)
    plan.words.insert(plan.words.end(), {"--set", choice.pair});
  plan.words.insert(plan.words.end(), own.begin(), own.end());
  if (!flags.gamma.empty() && flags.gamma != "auto")
    plan.words.insert(plan.words.end(), {"--set", "gamma=" + flags.gamma});
  add_metric(flags.by, config_of(plan.words), plan.words);
  return plan;
}

// What was chosen, and what the user has said instead.
std::vector<std::string> choice_lines(const FinetunePlan& plan, const Config& config) {
  std::vector<std::string> lines = {
      fmt::format("model   {}: {} of {} pixels, {}{}",
                  plan.model.path.string(),
                  find_recipe_facts(plan.model.recipe).title,
                  to_text(plan.model.resolution),
                  plan.model.classes > 0 ? counted(plan.model.classes, "class") + ", " : "",
                  plan.model.has_discriminator ? "with its discriminator"
                                               : "without a discriminator: D is drawn anew"),
      fmt::format("data    {}", counted(plan.pictures, "picture"))};
  for (const FinetuneChoice& choice : plan.choices) {
    const size_t equals = choice.pair.find('=');
    const std::string key = choice.pair.substr(0, equals), value = choice.pair.substr(equals + 1);
    const std::string now = text_of(config.get(key));
    const bool same = now == text_of(config.key(key).normalise(value).value_or(Json(value)));
    lines.push_back(same ? fmt::format("chosen  {} {}: {}", key, now, choice.why)
                         : fmt::format("given   {} {}, not {}", key, now, value));
  }
  return lines;
}

RaceWish wish_of(const FinetuneFlags& flags, const std::vector<std::string>& words) {
  return {.tries = {"gamma=auto*{0.25,1,4}"},
          .by = flags.by,
          .folder = flags.folder,
          .words = words,
          .command = command_line(),
          .verb = "finetuning"};
}

// Throws UserError for what the training, or each candidate of the race, would be refused for
// before it begins.
void check_beginning(const FinetuneFlags& flags, const FinetunePlan& plan, Config config) {
  if (flags.gamma == "auto") {
    plan_race(wish_of(flags, plan.words));
    return;
  }
  config.set("run.run_dir", (fs::path(flags.folder) / kRunName).string(), "-o");
  plan_training(config);
}

// Whether anything was trained: else the folder may hold another finetuning.
bool has_begun(const Finetuning& state, const fs::path& folder) {
  std::error_code error;
  if (!state.run.empty()) return fs::exists(state.run, error);
  const auto race = read_race(folder);
  return race && has_begun(*race, folder);
}

// Races for gamma until one is left, whose run is then the finetuning's. Returns 0 or a stop's
// code.
int race_for_gamma(PlannedRace& planned, Finetuning& state, Children& children) {
  const int stop = drive_race(planned.race, planned.site, children, /*to_the_end=*/false);
  if (stop != 0) return stop;
  const Candidate& winner = winner_of(planned.race).candidate;
  info("race    {} is left", winner.text());
  state.sets = winner.sets;
  state.run = (planned.site.folder / winner.name).string();
  return 0;
}

int dry_run(const FinetuneFlags& flags, const FinetunePlan& plan, const Config& config) {
  for (const std::string& line : choice_lines(plan, config)) print_text("{}\n", line);
  if (flags.gamma == "auto") {
    const auto planned = plan_race(wish_of(flags, plan.words));
    fmt::print("\n{}", plan_text(planned->race, static_cast<int64_t>(planned->site.places.size())));
  }
  std::vector<std::string> quoted;
  for (const std::string& word : plan.words) quoted.push_back(shell_quote(word));
  print_text("train   {} train {}\n", program(), join(quoted, " "));
  return 0;
}

int finish_finetuning(const Finetuning& state) {
  const fs::path run = state.run;
  info("finetune ended: {}; returned to the best state {}",
       state.ended,
       counted(static_cast<int64_t>(state.returns.size()), "time"));
  std::error_code error;
  const fs::path best = run / "model-best.safetensors";
  info("next    {}", generate_command((fs::exists(best, error) ? best : run).string()));
  fmt::print("{}\n", run.string());
  return 0;
}

void check_finetune_flags(const FinetuneFlags& flags, const std::vector<std::string>& words) {
  if (flags.data.empty())
    fail(Exit::kUsage, "finetune: on which pictures? {} finetune PHOTOS --from MODEL", program());
  if (flags.from.empty())
    fail(Exit::kUsage, "finetune: from which model? --from RUN, MODEL.safetensors or NETWORK.pkl");
  find_metric(flags.by);
  refuse_address(flags.from);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    for (const char* own : {"--preset",
                            "--config",
                            "--data",
                            "--init-from",
                            "--out",
                            "--run-dir",
                            "--resume",
                            "--dry-run",
                            "--smoke"}) {
      if (name == own)
        fail(Exit::kUsage, "{} behind finetune: leave it out; PHOTOS, --from and -o say it", name);
    }
  }
}

int run_finetune(const std::vector<std::string>& arguments) {
  FinetuneFlags flags;
  Options options(kFinetuneAbout, "gantrain finetune");
  options.add(flags);
  options.app().footer(kFinetuneFooter);
  const auto own = training_words(options, arguments);
  if (!own) return 0;
  check_finetune_flags(flags, *own);
  const fs::path folder = flags.folder;
  auto state = read_finetuning(folder);
  if (state && !has_begun(*state, folder)) state.reset();
  if (state && !flags.dry_run && state->command != command_line()) {
    fail(Exit::kUsage,
         "{} holds another finetuning: -o another folder begins a new one, the command that goes "
         "on with that one is {}",
         flags.folder,
         state->command);
  }
  if (!state || flags.dry_run) {
    const FinetunePlan plan = plan_finetuning(flags, importable(flags, folder), *own);
    const Config config = planned_config(plan.words, "finetuning").value();
    check_beginning(flags, plan, config);
    if (flags.dry_run) return dry_run(flags, plan, config);
    for (const std::string& line : choice_lines(plan, config)) info("{}", line);
    state = Finetuning{
        .command = command_line(), .from = flags.from, .words = plan.words, .metric = flags.by};
    if (flags.gamma != "auto") state->run = (folder / kRunName).string();
    make_writable_folder(folder);
    write_finetuning(folder, *state);
  }
  std::optional<PlannedRace> race;
  if (state->run.empty()) {
    race = plan_race(wish_of(flags, state->words));
    go_on_with(*race);
  }
  Children children;  // from here on signals are passed on
  if (race) {
    const int stop = race_for_gamma(*race, *state, children);
    write_finetuning(folder, *state);
    if (stop != 0) {
      info("next    {}", state->command);
      return stop;
    }
  }
  const int stop = supervise_finetuning(folder, *state, children);
  if (stop == 0) return finish_finetuning(*state);
  info("next    {}", state->command);
  return stop;
}

}  // namespace

Verb finetune_verb() {
  const auto describe = [] { return description_of<FinetuneFlags>("finetune", kFinetuneAbout); };
  return {"finetune",
          "fine-tune a model on a small data set: finetune PHOTOS --from MODEL",
          describe,
          run_finetune};
}

}  // namespace gantrain
