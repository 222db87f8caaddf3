// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <set>

#include "command/options.h"
#include "config/resolve.h"
#include "data/options.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "recipes/facts.h"
#include "train/options.h"
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
    "Trains a model on with your own, few pictures: chooses length, frozen layers of "
    "D, mirroring and cadence by how many there are, keeps the best model by a metric, goes back "
    "to the best state with half the rates where quality falls for long or pictures collapse (at "
    "most twice), and ends where nothing improves. At the end averages of other lengths compete "
    "with the best model, and the winner is best.safetensors. Stopped at any time, the same "
    "command goes on.";

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
  field("folder",
        o.folder,
        said("-o,--output"),
        "folder: the run, finetune.json, best.safetensors (runs/finetune)");
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

// Imports a pickle by `words`, those of gantrain. Throws UserError with the import's code; `said`
// is what the user has called it.
void import_pickle(std::vector<std::string> words, const std::string& said) {
  words.emplace_back("-q");
  Children children;
  children.start(0, {.arguments = words});
  const Children::End end = children.wait();
  if (children.stop_signal() != 0)
    throw UserError(static_cast<Exit>(code_of_stop(children.stop_signal())),
                    "stopped while the pickle was imported");
  if (end.code != 0) fail(static_cast<Exit>(end.code), "{}: could not be imported", said);
}

// The model as a file that a training begins at: a pickle becomes one in the finetuning's folder,
// under a name that its content decides, once. A start that is refused, and a dry run, leave
// nothing of it.
class Importable {
 public:
  Importable(std::string from, const fs::path& folder)
      : from_(std::move(from)), start_(folder), path_(file_of(from_)) {
    if (!is_pickle(path_.string())) return;
    std::error_code error;
    if (!fs::is_regular_file(path_, error)) fail(Exit::kInput, "{}: no such file", path_.string());
    const fs::path pickle = path_;
    path_ = folder / ("from-" + sha256(read_file(pickle)).substr(0, 12) + ".safetensors");
    words_ = {"import", pickle.string(), "-o", path_.string()};
  }
  ~Importable() {
    if (!made_) return;
    std::error_code error;
    fs::remove(path_, error);
    start_.undo();
  }
  Importable(const Importable&) = delete;
  Importable& operator=(const Importable&) = delete;

  // Makes the file, where it is one of a pickle and not there yet.
  void make() {
    std::error_code error;
    if (words_.empty() || fs::exists(path_, error)) return;
    made_ = true;
    start_.make();
    import_pickle(words_, from_);
  }
  void keep() { made_ = false; }

  const fs::path& path() const { return path_; }
  // What makes the file: words of gantrain; none where it is not imported.
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::string from_;
  StartFolder start_;
  fs::path path_;
  std::vector<std::string> words_;
  bool made_ = false;
};

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

// Of what finetuning itself decides.
[[noreturn]] void refuse(const std::string& word) {
  if (word == "--dry-run") fail(Exit::kUsage, "--dry-run behind finetune: put it before --");
  fail(Exit::kUsage, "{} behind finetune: leave it out; PHOTOS, --from and -o say it", word);
}

// The same, said by --set.
void refuse_what_is_decided(const Config& config,
                            const FinetuneFlags& flags,
                            const StartingModel& model) {
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

RaceWish wish_of(const FinetuneFlags& flags, const std::vector<std::string>& words) {
  return {.tries = {"gamma=auto*{0.25,1,4}"},
          .by = flags.by,
          .folder = flags.folder,
          .words = words,
          .command = command_line(),
          .verb = "finetuning",
          .advice = "a longer --kimg behind --, or --gamma with a number, is needed"};
}

struct FinetunePlan {
  StartingModel model;
  std::vector<std::string> words;  // of the training
  Config config;                   // that they make
  int64_t pictures = 0;
  std::vector<FinetuneChoice> choices = {};
  std::optional<PlannedRace> race = {};  // for gamma

  void add(const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  }
  // What the training is told behind all that came before.
  void lay_over(const std::string& pair) {
    add({"--set", pair});
    set_from_flags(config, {{"--set", pair}});
  }
};

// Returns how many pictures there are. Throws UserError where a training would refuse them, or they
// are too few or too small.
int64_t check_pictures(const FinetuneFlags& flags, const Config& config) {
  const PictureSizes sizes = look_at_data({.config = config.to_json(), .labels = true});
  if (sizes.pictures < 2)
    fail(Exit::kInput,
         "{}: {}; finetuning takes some tens at least",
         flags.data,
         counted(sizes.pictures, "picture"));
  const std::string small = enlargement_warning(sizes, config.read<DataOptions>());
  if (!small.empty() && !flags.enlarge)
    fail(Exit::kInput, "{}: smaller than the model: {} (--enlarge takes them)", flags.data, small);
  return sizes.pictures;
}

// Chooses by the pictures what the user has not said, whose words are `own` and whose keys `given`.
void choose(const FinetuneFlags& flags,
            const std::vector<std::string>& own,
            const std::set<std::string>& given,
            FinetunePlan& plan) {
  Config& config = plan.config;
  Config completed = config;
  choose_auto_values(completed, {});
  plan.choices = finetune_choices(completed, plan.model, plan.pictures, flags.by);
  for (const FinetuneChoice& choice : plan.choices) {
    plan.add({"--set", choice.pair});
    if (given.count(choice.pair.substr(0, choice.pair.find('='))) == 0)
      set_from_flags(config, {{"--set", choice.pair}});
  }
  plan.add(own);
  if (!flags.gamma.empty() && flags.gamma != "auto") plan.lay_over("gamma=" + flags.gamma);
  // The metric that decides is measured, whatever the user has measured beside it.
  std::vector<std::string> names =
      metric_names(config.read<MetricsOptions>(), config.read<SaveOptions>());
  if (contains(names, flags.by)) return;
  names.push_back(flags.by);
  plan.lay_over("metrics.names=" + join(names, ","));
}

// Nothing where `own` asks for --help, which is printed then. Throws UserError also for what the
// training, or each candidate of the race, would be refused for before it begins.
std::optional<FinetunePlan> plan_finetuning(const FinetuneFlags& flags,
                                            const fs::path& from,
                                            const std::vector<std::string>& own) {
  StartingModel model = read_starting_model(from, keys_of_recipe);
  model.adaptive = find_recipe_facts(model.recipe).adaptive;
  std::vector<std::string> words = words_of_model(model);
  words.insert(words.end(), {"--data", flags.data});
  const std::optional<PlannedConfig> planned = planned_config(own, "finetuning", words);
  if (!planned) return std::nullopt;
  FinetunePlan plan{model, words, planned->config};
  refuse_what_is_decided(plan.config, flags, model);
  plan.pictures = check_pictures(flags, plan.config);
  choose(flags, own, planned->given, plan);
  if (flags.gamma == "auto") {
    plan.race = plan_race(wish_of(flags, plan.words), plan.config);
  } else {
    Config there = plan.config;
    there.set("run.run_dir", (fs::path(flags.folder) / kRunName).string(), "-o");
    plan_training(there);
  }
  return plan;
}

// What was chosen, and what the user has said instead.
std::vector<std::string> choice_lines(const FinetunePlan& plan) {
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
    const std::string now = text_of(plan.config.get(key));
    const bool same = now == text_of(plan.config.key(key).normalise(value).value_or(Json(value)));
    lines.push_back(same ? fmt::format("chosen  {} {}: {}", key, now, choice.why)
                         : fmt::format("given   {} {}, not {}", key, now, value));
  }
  return lines;
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
  if (contains(planned.site.more, "--nproc")) {
    info(
        "race    it goes on with one GPU, as it raced; --nproc behind -- takes more for all of it");
    state.words.insert(state.words.end(), {"--nproc", "1"});
  }
  state.sets = winner.sets;
  state.run = (planned.site.folder / winner.name).string();
  return 0;
}

std::string quoted(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const std::string& word : words) all.push_back(shell_quote(word));
  return join(all, " ");
}

int dry_run(const FinetunePlan& plan, const Importable& model) {
  for (const std::string& line : choice_lines(plan)) print_text("{}\n", line);
  if (const auto& planned = plan.race)
    fmt::print("\n{}", plan_text(planned->race, static_cast<int64_t>(planned->site.places.size())));
  if (!model.words().empty()) print_text("import  {} {}\n", program(), quoted(model.words()));
  print_text("train   {} train {}\n", program(), quoted(plan.words));
  return 0;
}

int finish_finetuning(const fs::path& folder, const Finetuning& state) {
  info("finetune ended: {}; returned to the best state {}",
       state.ended,
       counted(static_cast<int64_t>(state.returns.size()), "time"));
  std::error_code error;
  const fs::path best = folder / kChosenModel;
  info("next    {}", generate_command(fs::exists(best, error) ? best.string() : state.run));
  fmt::print("{}\n", state.run);
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
      if (name == own) refuse(name);
    }
  }
}

// A command without the program, which may be called by another path.
std::string words_of(const std::string& command) {
  const size_t verb = command.find(" finetune ");
  return verb == std::string::npos ? command : command.substr(verb);
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
  if (state && !flags.dry_run && words_of(state->command) != words_of(command_line())) {
    fail(Exit::kUsage,
         "{} holds another finetuning: -o another folder begins a new one, the command that goes "
         "on with that one is {}",
         flags.folder,
         state->command);
  }
  FolderLock lock;  // two at a time would choose among each other's models
  std::optional<PlannedRace> race;
  if (!state || flags.dry_run) {
    Importable model(flags.from, folder);
    model.make();
    const auto plan = plan_finetuning(flags, model.path(), *own);
    if (!plan) return 0;
    if (flags.dry_run) return dry_run(*plan, model);
    model.keep();
    for (const std::string& line : choice_lines(*plan)) info("{}", line);
    state = Finetuning{
        .command = command_line(), .from = flags.from, .words = plan->words, .metric = flags.by};
    if (flags.gamma != "auto") state->run = (folder / kRunName).string();
    take_folder(folder, "finetuning", lock);
    forget_chosen(folder);
    write_finetuning(folder, *state);
    race = plan->race;
  } else {
    take_folder(folder, "finetuning", lock);
    state = read_finetuning(folder);  // another process may have had it meanwhile
    if (state->run.empty()) race = plan_race(wish_of(flags, state->words));
  }
  if (race) go_on_with(*race);
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
  if (stop == 0) return finish_finetuning(folder, *state);
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
