// SPDX-License-Identifier: Apache-2.0
#include "train/run_start.h"

#include <algorithm>

#include "core/torch.h"
#include "distributed/shared_text.h"
#include "train/batch_text.h"
#include "train/classes.h"
#include "train/kimg_text.h"
#include "train/leftovers.h"
#include "train/mixed_precision.h"
#include "train/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// Checks a state's counters against this run's schedule, which --force may have changed.
void check_stage(const Schedule& schedule, const RunStart& start) {
  if (schedule.empty()) return;
  const int64_t seen = start.counters.images_seen;
  const int64_t saved = start.counters.stage;
  const int64_t due = schedule.stage_at(seen);
  const auto& stages = schedule.stages();
  // The stage trained last before `seen` is the stage that is due, or an earlier one whose end the
  // last batch has reached or passed.
  const bool exists = saved >= 0 && saved < static_cast<int64_t>(stages.size());
  const bool fits = exists && saved <= due &&
                    schedule.stage_at(std::max<int64_t>(
                        seen - stages[static_cast<size_t>(saved)].batch, 0)) == saved;
  if (fits || (seen == 0 && saved == 0)) return;
  fail(Exit::kInput,
       "{}: saved at {} kimg in its stage {}, which does not fit this schedule: there that is {}; "
       "give the schedule.* that the state was trained with",
       start.resumed_from.empty() ? "the state" : start.resumed_from.string(),
       number(static_cast<double>(seen) / 1e3),
       saved + 1,
       schedule.name_of(due));
}

// Loads, on rank 0, the newest state that --resume asks for; returns false if there is none.
bool load_state(const TrainSetup& setup,
                const RunOptions& options,
                const NamedTensors& state,
                const ClassTable& classes,
                RunStart& start) {
  if (options.resume == "none") return false;
  const bool automatic = options.resume == "auto";
  const fs::path where = automatic ? fs::path(options.run_dir) : fs::path(options.resume);
  std::error_code error;
  if (automatic && (where.empty() || !fs::is_directory(where, error))) return false;
  start.resumed_from =
      load_newest(where, state, start.counters, setup.config, options.force, classes);
  if (start.resumed_from.empty() && !automatic) {
    fail(Exit::kInput,
         "{}: holds no state to resume from; --resume none starts afresh",
         where.string());
  }
  return !start.resumed_from.empty();
}

}  // namespace

RunStart load_or_begin(const TrainSetup& setup,
                       const RunOptions& options,
                       TrainingStep& step,
                       Group& group,
                       const ClassTable& classes) {
  RunStart start;
  const NamedTensors state = named(step.state());
  bool loaded = false;
  // Reading a large state from a slow disk may take longer than a collective waits.
  group.on_rank_0(
      [&] {
        loaded = load_state(setup, options, state, classes, start);
        if (!loaded && !options.init_from.empty())
          start.init = init_from(options.init_from, step.recipe(), *step.average().network());
      },
      [&] { setup.callbacks.phase("waiting for rank 0"); });
  start.resumed = share_state(group, loaded, state, start.counters);
  if (start.resumed) {
    start.counters.cpu_choice = shared_text(start.counters.cpu_choice, group, setup.device);
    check_stage(step.recipe().schedule(), start);
  } else {
    group.broadcast_state(state);
  }
  step.begin();
  return start;
}

void open_run_folder(const TrainSetup& setup,
                     const RunOptions& options,
                     Group& group,
                     RunStart& start) {
  if (group.rank() == 0) {
    if (!options.run_dir.empty()) {
      start.folder = options.run_dir;
    } else {
      const std::string preset = text_of(setup.config.get("preset"));
      const std::string name = fmt::format("{}-{}-b{}",
                                           preset.empty() ? setup.recipe.facts.name : preset,
                                           short_name(setup.config.read<DataOptions>("data.")),
                                           setup.config.get("train.batch").get<int64_t>());
      start.folder = make_numbered_folder(options.out, name);
    }
    make_writable_folder(start.folder / "samples");
    remove_temporary_files(start.folder);  // before other nodes write here
    const int64_t aside = set_aside(start.folder, start.counters.images_seen);
    if (aside > 0) {
      warn("{}: {} later states and models renamed superseded-*", start.folder.string(), aside);
    }
  }
  start.folder = shared_text(start.folder.string(), group, setup.device);
  setup.callbacks.run_folder(start.folder.string());
  const int64_t rank = group.rank();
  if (rank == 0) {
    set_log({log_console_level(), Level::kInfo, start.folder / "log.txt", ""});
  } else {
    set_log(
        {Level::kError, Level::kWarning, start.folder / fmt::format("log-rank{}.txt", rank), ""});
  }
}

Config decide_precision(const TrainSetup& setup,
                        const TrainOptions& train,
                        TrainingStep& step,
                        Group& group,
                        RunStart& start) {
  const auto options = setup.config.read<PrecisionOptions>("precision.");
  const auto data = setup.config.read<DataOptions>("data.");
  const std::vector<TrainedSize> sizes =
      trained_sizes(step, train, group.world(), data.resolution, start.counters.images_seen);
  std::optional<std::string> resumed;
  if (start.resumed) resumed = start.counters.cpu_choice;
  start.precision = decide_cpu_precision(step, options, sizes, group, resumed);
  Config config = setup.config;
  if (start.precision.choice != options.cpu_choice)
    config.set("precision.cpu_choice", start.precision.choice, "auto: measured as the run began");
  return config;
}

void warn_of_split_groups(const TrainingStep& step) {
  const int64_t group = step.recipe().batch_group();
  for (const PlayerState& p : step.players()) {
    if (p.plan.micro_batch % group == 0) continue;
    warn(
        "{}'s micro-batch of {} is not a multiple of the {} samples of a minibatch-std group: the "
        "result depends on the number of ranks",
        p.player->name,
        p.plan.micro_batch,
        group);
  }
}

namespace {

// The content of config.json: the configuration, and beside it the classes of the data and `more`.
std::string config_text(const Config& config, const ClassTable& classes, const Json& more) {
  Json json = config.to_json();
  if (!classes.empty()) json["classes"] = to_json(classes);
  json.update(more);
  return json.dump(2) + "\n";
}

std::string sizes_of(const TrainingStep& step) {
  std::string sizes;
  for (const PlayerState& p : step.players()) {
    int64_t count = 0;
    for (const auto& [name, parameter] : p.parameters) count += parameter.numel();
    sizes += fmt::format("  {} {:.2f} M", p.player->name, static_cast<double>(count) / 1e6);
  }
  return sizes;
}

}  // namespace

void write_start(const TrainSetup& setup,
                 const Config& config,
                 const RunStart& start,
                 const TrainingStep& step,
                 const TrainingData& data) {
  const BatchPlan& plan = step.plan();
  write_file(start.folder / "config.json", config_text(config, data.classes(), start.more));
  append_line(start.folder / "command.txt", setup.command);
  write_file(start.folder / "env.json",
             describe_environment(setup.device.str(), plan.world).dump(2) + "\n");
  write_status(start.folder, "running");
  if (!setup.defaults.empty()) warn("{}", setup.defaults);
  const char* labels = data.dataset()->classes() == 0 ? ""
                       : data.labels_used()           ? "; labels are used"
                                                      : "; labels are not used";
  info("data    {}{}", data.dataset()->description(), labels);
  if (data.labels_used()) {
    info("classes {}; sample grids are sorted by class", data.classes().size());
    for (const std::string& line : class_lines(data.classes())) info("        {}", line);
  }
  warn_of_split_groups(step);
  info("model   {}{} parameters", setup.recipe.facts.name, sizes_of(step));
  const std::string precision =
      describe_precision(config.read<PrecisionOptions>("precision."), setup.device);
  if (!precision.empty()) info("amp     {}{}", precision, start.precision.detail);
  if (!start.precision.warning.empty()) warn("{}", start.precision.warning);
  for (const std::string& line : setup.chosen) info("{}", line);
  if (start.init) log_table(*start.init);
  info("{}; {} kimg",
       batch_text(plan, setup.config),
       kimg_text(setup.config.read<TrainOptions>("train.").kimg.images));
  if (!start.counters.stage_name.empty()) info("stages  {} now", start.counters.stage_name);
  const std::string_view backend = names(setup.backend)[static_cast<size_t>(setup.backend)];
  if (plan.world > 1) {
    info("ranks   {} over {}, ddp-mode {}", plan.world, backend, step.describe_reductions());
  }
  if (const std::string graphs = step.describe_graphs(); !graphs.empty())
    info("graphs  {}", graphs);
  info("run     {}          1 kimg = 1000 real images shown to D", start.folder.string());
  if (start.resumed) {
    info("resume  at {} kimg ({})",
         kimg_text(start.counters.images_seen),
         start.resumed_from.string());
  }
}

}  // namespace gantrain
