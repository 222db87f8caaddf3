// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_start.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/torch.h"
#include "data/load/threads.h"
#include "page/run_record.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "train/step/mixed_precision.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kContent = "content of the data";
// What launchers and other ranks write in a run folder, and commands such as `gantrain report`.
bool is_of_others(const fs::path& file) {
  constexpr std::array kOfOthers = {"STATUS", ".", "log", "report"};
  const std::string name = file.filename();
  return file.parent_path().filename() == "errors" ||
         std::ranges::any_of(kOfOthers,
                             [&](const char* start) { return starts_with(name, start); });
}

// What must be equal on all ranks: configuration keys, and facts of the data. One rank of each node
// reads the data's content.
Json what_matters(const Config& config, const Dataset& dataset, const RankInfo& ranks) {
  Json all = Json::object();
  all["gantrain's version"] = kVersion;
  for (const Key& key : config.schema()) {
    const bool may_differ = is_among(key.path,
                                     {"launch.",
                                      "run.",
                                      "data.path",
                                      "data.labels",
                                      "data.unlabelled",
                                      "data.workers",
                                      "data.cache_mb",
                                      "data.verify"});
    if (!may_differ) all[key.path] = config.get(key.path);
  }
  Json classes = Json::array();
  for (const ClassRow& row : class_table_of(dataset))
    classes.push_back(fmt::format("{} ({})", row.name, row.pictures));
  all["pictures of the data"] = dataset.size();
  all["channels of the data"] = dataset.channels();
  all["depth of the data"] = dataset.depth();
  all["classes of the data"] = classes;
  if (ranks.nodes > 1 && ranks.local_rank == 0) all[kContent] = sampled_digest(dataset);
  return all;
}

std::string shown(const Json& all, const std::string& key) {
  constexpr size_t kMostShown = 120;
  const auto found = all.find(key);
  if (found == all.end()) return "absent";
  const std::string text = text_of(*found);
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

// The first difference, as a sentence; "" where there is none.
std::string difference(const Json& mine, const Json& first, const RankInfo& ranks) {
  for (const auto& [key, value] : mine.items()) {
    const auto there = first.find(key);
    if (there != first.end() && *there == value) continue;
    return fmt::format(
        "the ranks were started differently: {} is {} on node {} ({}, rank {}), and {} on node 0; "
        "give every node the same command, data and version",
        key,
        shown(mine, key),
        ranks.node_rank,
        host_name(),
        ranks.rank,
        shown(first, key));
  }
  return "";
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (fs::is_regular_file(entry.symlink_status(error))) files.push_back(entry.path());
  }
  return files;
}

bool is_later(const std::string& line, int64_t images) {
  const auto kimg = kimg_of_line(line);
  return !kimg || *kimg * 1e3 > static_cast<double>(images) + 0.5;
}

int64_t set_aside_of(const fs::path& file, int64_t images) {
  std::string kept, later;
  constexpr int64_t kMost = int64_t{1} << 30;  // bytes; all rows are kept, so all are read
  for (const std::string& line : split(read_regular_file(file, kMost), '\n')) {
    if (!line.empty()) (is_later(line, images) ? later : kept) += line + "\n";
  }
  if (later.empty()) return 0;
  append_line(file.parent_path() / ("superseded-" + file.filename().string()), trim(later));
  write_file(file, kept);
  return std::count(later.begin(), later.end(), '\n');
}

void mark_or_stop(const Dataset& dataset,
                  const TrainSetup& setup,
                  const Manifest& before,
                  Manifest& now) {
  bool stopped = false;
  const auto stop = [&] {
    setup.callbacks.phase("comparing data");
    return stopped = setup.callbacks.stop_signal() != 0;
  };
  const int64_t unreadable = mark_pictures(
      dataset,
      {.threads = threads_for_marks(), .known = &before, .lenient = true, .stop = stop},
      now);
  if (stopped) fail(Exit::kStopped, "stopped while the data was compared with the run's");
  if (unreadable > 0)
    warn("{}: {} of its pictures cannot be read now; whether they have changed is not known",
         now.path,
         unreadable);
}

void tell_broken(const std::string& path, const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr size_t kNamed = 3;
  const std::vector<std::string> some(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
  warn("{}: {} of this run's data cannot be read any more: {}{}; left out (data.on_bad=skip)",
       path,
       counted(static_cast<int64_t>(names.size()), "picture"),
       join(some, ", "),
       names.size() > kNamed ? ", ..." : "");
}

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
  const int64_t batch = exists ? stages[static_cast<size_t>(saved)].batch : 0;
  const int64_t last = schedule.stage_at(std::max<int64_t>(seen - batch, 0));
  if (saved == due || (exists && saved < due && saved == last)) return;
  fail(Exit::kInput,
       "{}: saved at {} kimg in its stage {}, which does not fit this schedule: there that is {}; "
       "give the schedule.* that the state was trained with",
       start.resumed_from.empty() ? "the state" : start.resumed_from.string(),
       kimg_text(seen),
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
  const bool automatic = goes_on_by_itself(options);
  const fs::path where = automatic ? fs::path(options.run_dir) : fs::path(options.resume);
  if (automatic && (where.empty() || !fs::is_directory(where))) return false;
  start.resumed_from =
      load_newest(where, state, start.counters, setup.config, options.force, classes);
  if (start.resumed_from.empty() && !automatic) {
    fail(Exit::kInput,
         "{}: holds no state to resume from; --resume none starts afresh{}",
         where.string(),
         find_models(where).empty()
             ? ""
             : fmt::format("; --init-from {} begins a new run at the weights of its newest model",
                           shell_quote(where.string())));
  }
  return !start.resumed_from.empty();
}

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

std::string difference_from_rank_0(const TrainSetup& setup,
                                   const Dataset& dataset,
                                   Group& group,
                                   const RankInfo& ranks) {
  // Both are compared as text carries them: a value that is not UTF-8 is replaced in both.
  const Json all = what_matters(setup.config, dataset, ranks);
  const std::string text = json_line(all);
  return difference(Json::parse(text), Json::parse(shared_text(text, group, setup.device)), ranks);
}

void check_same_start(const TrainSetup& setup, const Dataset& dataset, Group& group) {
  if (group.world() == 1) return;
  const std::string objection = difference_from_rank_0(setup, dataset, group, group.ranks());
  throw_first_objection(objection, group, setup.device);
}

int64_t remove_temporary_files(const fs::path& folder, bool others_write) {
  int64_t removed = 0;
  std::error_code error;
  for (const char* name : {"", "samples", "averages", "errors"}) {
    const fs::path where = folder / name;
    // What a link leads to is not the run's, which makes a folder of its own.
    if (fs::is_symlink(where, error) && fs::remove(where, error))
      warn("{}: was a link, which is not followed; it becomes a folder", where.string());
    for (const fs::path& file : files_in(where)) {
      const bool goes = is_temporary_name(file.filename()) && !(others_write && is_of_others(file));
      removed += goes && fs::remove(file, error) ? 1 : 0;
    }
  }
  return removed;
}

int64_t set_rows_aside(const fs::path& folder, int64_t images) {
  int64_t rows = 0;
  for (const fs::path& file : files_in(folder)) {
    const std::string name = file.filename();
    if (name == "stats.jsonl" || (starts_with(name, "metric-") && ends_with(name, ".jsonl")))
      rows += set_aside_of(file, images);
  }
  return rows;
}

Manifest compare_data(const fs::path& folder,
                      const Dataset& dataset,
                      const TrainSetup& setup,
                      const RunOptions& options) {
  const std::string path = setup.config.read<DataOptions>().path;
  const std::optional<Manifest> before = folder.empty() ? std::nullopt : try_manifest(folder);
  if (!before) return {.path = path, .rows = {}};
  Manifest now = list_again(dataset, path, *before);
  mark_or_stop(dataset, setup, *before, now);
  if (setup.config.read<DataOptions>().on_bad == OnBad::kSkip)
    tell_broken(path, take_broken(dataset, *before, now));
  const std::string changed = changes(*before, now, &dataset);
  if (changed.empty()) return now;
  if (!is_forced(options.force, "data")) {
    fail(
        Exit::kUsage,
        "{}: the data is not what this run was trained on: {}; bring the old data back, or "
        "--force data to go on with what is there now; --init-from {} in another run folder begins "
        "a new run at its weights",
        path,
        changed,
        shell_quote(folder.string()));
  }
  warn("{}: the data has changed, and is taken as it is now (--force): {}", path, changed);
  // Few enough for a list again, whose names and stamps are not in hashes.
  if (!now.hashes.empty() && dataset.size() <= kMostListed) return {.path = path, .rows = {}};
  return now;
}

Manifest kept_manifest(const fs::path& folder, const TrainSetup& setup) {
  return try_manifest(folder).value_or(
      Manifest{.path = setup.config.read<DataOptions>().path, .rows = {}});
}

DataRecord::DataRecord(fs::path folder, std::shared_ptr<const Dataset> dataset, Manifest manifest)
    : folder_(std::move(folder)), dataset_(std::move(dataset)), manifest_(std::move(manifest)) {
  thread_ = start_worker([this] {
    work();
    manifest_ = {};  // it may be large
  });
}

DataRecord::~DataRecord() {
  ended_ = true;
  thread_.join();
}

// One thread reads, so that the threads that load pictures have the disk.
void DataRecord::work() {
  try {
    if (manifest_.size() == 0) manifest_ = list_pictures(*dataset_, manifest_.path);
    write_manifest(folder_, manifest_);
    if (is_marked(manifest_)) return;
    const int64_t unreadable =
        mark_pictures(*dataset_,
                      {.threads = 1, .lenient = true, .stop = [this] { return ended_.load(); }},
                      manifest_);
    write_manifest(folder_, manifest_);
    if (unreadable > 0)
      warn("{}: {} of its pictures cannot be read; a resume will not notice their changes",
           manifest_.path,
           unreadable);
  } catch (const std::exception& e) {
    try_to_warn(fmt::format("{}; a resume will not notice all changes of the data", e.what()));
  }
}

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
        if (!loaded) check_freezing(step.recipe().freezing(), start.init ? &*start.init : nullptr);
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
    if (start.folder.empty()) start.folder = options.run_dir;
    if (start.folder.empty()) {
      const std::string preset = text_of(setup.config.get("preset"));
      const std::string name = fmt::format("{}-{}-b{}",
                                           preset.empty() ? setup.recipe.facts.name : preset,
                                           short_name(setup.config.read<DataOptions>()),
                                           setup.config.get("train.batch").get<int64_t>());
      start.folder = make_numbered_folder(options.out, name);
    }
    remove_temporary_files(start.folder, /*others_write=*/start.went_on);
    make_writable_folder(start.folder / "samples");
    const int64_t aside = set_aside(start.folder, start.counters.images_seen);
    if (aside > 0)
      warn("{}: {} later states, models and snapshots renamed superseded-*",
           start.folder.string(),
           aside);
  }
  start.folder = shared_text(start.folder.string(), group, setup.device);
  const std::string& own = options.run_dir.empty() ? options.out : options.run_dir;
  if (group.rank() > 0 && !lies_in(start.folder, own)) {
    fail(Exit::kEnvironment,
         "rank 0's run folder {} is not in {}, which the command names here: give all nodes the "
         "same --run-dir or --out",
         start.folder.string(),
         own);
  }
  setup.callbacks.run_folder(start.folder.string());
  const int64_t rank = group.rank();
  if (rank == 0) return set_log({log_console_level(), Level::kInfo, start.folder / "log.txt", ""});
  set_log({Level::kError, Level::kWarning, start.folder / fmt::format("log-rank{}.txt", rank), ""});
}

Config decide_precision(const TrainSetup& setup,
                        const TrainOptions& train,
                        TrainingStep& step,
                        Group& group,
                        RunStart& start) {
  const auto options = setup.config.read<PrecisionOptions>();
  const auto data = setup.config.read<DataOptions>();
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
  for (const PlayerState& p : step.players()) {
    const std::string split =
        split_groups_text(p.player->name, p.plan.micro_batch, step.batch_group());
    if (!split.empty()) warn("{}", split);
  }
}

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
  const char* labels = data.classes().empty() ? ""
                       : data.labels_used()   ? "; labels are used"
                                              : "; labels are not used";
  info("data    {}{}", data.dataset()->description(), labels);
  if (data.labels_used()) {
    if (data.classes().vectors()) {
      info("labels  vectors of {}; sample grids show those of the real ones beside them",
           counted(static_cast<int64_t>(data.classes().size()), "number"));
    } else {
      info("classes {}; sample grids are sorted by class", data.classes().size());
    }
    for (const std::string& line : class_lines(data.classes())) info("        {}", line);
    for (const std::string& line : class_warnings(data.classes())) warn("{}", line);
  }
  for (const std::string& line : data.dataset()->warnings()) warn("{}", line);
  warn_of_split_groups(step);
  info("model   {}{} parameters", setup.recipe.facts.name, sizes_of(step));
  const std::string precision = describe_precision(config.read<PrecisionOptions>(), setup.device);
  if (!precision.empty()) info("amp     {}{}", precision, start.precision.detail);
  if (!start.precision.warning.empty()) warn("{}", start.precision.warning);
  for (const std::string& line : setup.chosen) info("{}", line);
  if (start.init) log_table(*start.init);
  info("{}; {} kimg",
       batch_text(plan, setup.config),
       kimg_text(setup.config.read<TrainOptions>().kimg.images));
  if (!start.counters.stage_name.empty()) info("stages  {} now", start.counters.stage_name);
  const std::string_view backend = names(setup.backend)[static_cast<size_t>(setup.backend)];
  if (plan.world > 1)
    info("ranks   {} over {}, ddp-mode {}", plan.world, backend, step.describe_reductions());
  if (const std::string graphs = step.describe_graphs(); !graphs.empty())
    info("graphs  {}", graphs);
  info("run     {}          1 kimg = 1000 real images shown to D", start.folder.string());
  if (start.resumed) {
    info("resume  at {} kimg ({})",
         kimg_text(start.counters.images_seen),
         start.resumed_from.string());
    const std::string other = setup.config.read<RunOptions>().init_from;
    if (!other.empty())
      info(
          "init    {} is not used: the run goes on from its own state; another --run-dir begins "
          "at it",
          other);
  }
}

}  // namespace gantrain
