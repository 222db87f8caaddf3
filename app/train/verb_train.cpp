// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "command/flags.h"
#include "command/options.h"
#include "config/config.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "data/options.h"
#include "distributed/options.h"
#include "gan/options.h"
#include "inspect/machine.h"
#include "launch/local/processes.h"
#include "launch/local/supervise.h"
#include "launch/options.h"
#include "launch/where/devices.h"
#include "launch/where/environment.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
#include "tune/children.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr const char* kTrainAbout =
    "Train a GAN. Without flags: preset dcgan on built-in pictures.";

struct TrainArguments {
  ConfigSources sources;
  KeyFlags keys;
  std::string dry_run;  // "", "short" or "full"
  int64_t stopped_code = static_cast<int>(Exit::kStopped);
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::string ignored;
  Translation own;  // the command line, with flags of other trainers replaced

  void declare(Options& options);
};

void TrainArguments::declare(Options& options) {
  const auto in = [](const char* group, const char* names) {
    return Said{.names = names, .group = group};
  };
  const auto again = [](const char* names) {
    return Said{.names = names, .group = "What", .last_wins = true};
  };
  const auto add = [&](const Said& said, const char* help, auto& member, const Check& check = {}) {
    options.add({said.names, said, check, help}, member);
  };
  add(again("--preset"), "named starting point: gantrain presets list", sources.preset);
  add(again("--config,--config-file"),
      "JSON with comments, or config.json of a run",
      sources.config_file);
  keys.add_set(options, in("What", "--set,--cfg-options"));
  add(in("What", "--smoke"),
      "two CPU ranks, 16 pixels, under a minute: does all of it work here?",
      sources.smoke);
  keys.add_flags(
      options,
      Config(full_schema(recipe_facts().front().name)),
      [](const Flag&) { return true; },
      "");
  add(in("Where", "--local_rank,--local-rank"),
      "accepted from old launchers; LOCAL_RANK counts",
      ignored);
  add(in("Where", "--stopped-code"),
      "exit code instead of 75 of a run that has saved and can go on; Kubeflow's policy "
      "ExitCode restarts from 128 on",
      stopped_code,
      between(1, 255));
  options.app()
      .add_flag("--dry-run{short}",
                dry_run,
                "print what was set and the schedule, train nothing; -v: all keys; =full: sizes, "
                "time, too")
      ->group("Talk");
  add(in("Talk", "--json"), "--dry-run as one JSON line", json);
  add(in("Talk", "-q,--quiet"), "warnings and errors only", quiet);
  add(in("Talk", "-v,--verbose"), "more messages", verbose);
}

bool parse_arguments(const std::vector<std::string>& arguments, TrainArguments& out) {
  Options options(kTrainAbout, "gantrain [train]");
  options.add(out);
  out.own = translate_habits(arguments, training_flag_names());
  if (!options.parse(out.own.arguments)) return false;
  if (options.given("--preset") && out.sources.preset.empty())
    fail(Exit::kUsage, "--preset needs a name; {} presets list shows them", program());
  out.sources.flags = out.keys.given(options);
  if (!out.dry_run.empty() && out.dry_run != "short" && out.dry_run != "full") {
    fail(Exit::kUsage, "--dry-run={}: allowed: --dry-run, --dry-run=full", out.dry_run);
  }
  return true;
}

// What the defaults chose, in one line: said by rank 0 once the run stands.
std::string defaults_chosen(const Launch& launch) {
  std::vector<std::string> parts;
  if (!launch.config.given("preset") && !text_of(launch.config.get("preset")).empty())
    parts.push_back("no --preset: " + text_of(launch.config.get("preset")));
  if (!launch.config.given("data.path")) {
    parts.push_back(
        fmt::format("no --data: built-in pictures ({})", text_of(launch.config.get("data.path"))));
  }
  if (launch.device_was_auto && launch.device == DeviceKind::kCpu) {
    parts.push_back("no GPU visible: " + counted(launch.world.ranks.world, "CPU rank"));
  }
  return join(parts, "; ");
}

// There may be little time after a stop, and where another launcher's ranks have failed, which it
// kills soon: torchrun after 30 s.
constexpr double kTrackSecondsOfStop = 5;

std::vector<std::string> track_words(const std::string& folder, const std::string& more) {
  std::vector<std::string> words = {"track", folder, more};
  if (log_console_level() < Level::kInfo) words.emplace_back("-q");
  return words;
}

void start_tracking(const std::string& folder) {
  if (start_again(track_words(folder, "--follow")) < 0)
    warn("track   no process can be started: {}; the rows are sent at the end", errno_text());
}

// At the end of a run, what its trackers lack is sent.
void end_tracking(const Launch& launch, const WorldEnd& end) {
  const bool worker = launch.world.role == World::Role::kWorker;
  if (end.run_folder.empty() || !end.tells_of_run) return;
  double wait = launch.config.read<RunOptions>().track_wait.seconds;
  if (is_stop_code(end.code) || (worker && end.code != 0))
    wait = std::min(wait, kTrackSecondsOfStop);
  Children children;
  children.start(0, {.arguments = track_words(end.run_folder, fmt::format("--wait={}s", wait))});
  // A server that is slow, but answers, may take no longer either.
  if (children.wait_for(wait + 1)) return;
  children.stop_all(SIGKILL);
  children.wait();
  warn("track   not all is sent after {}s; the rest: {} track {}",
       wait,
       program(),
       shell_quote(end.run_folder));
}

WorldEnd run(const Launch& launch) {
  const auto run_options = launch.config.read<RunOptions>();
  StartFolder own(run_options.run_dir.empty() ? run_options.out : run_options.run_dir);
  own.make();  // found out now, not after the pictures were read
  const TrainRequest request{
      .config = launch.config.to_json(),
      .command = command_line(),
      .defaults = defaults_chosen(launch),
      .chosen = launch.chosen,
      .device = launch.device,
      .gpus = launch.gpus,
      .backend = launch.backend,
      .started = monotonic_seconds(),
      .sharers = launch.world.role == World::Role::kLauncher ? launch.world.ranks.local_world : 1,
      .level = log_console_level()};
  const bool cuda = launch.device == DeviceKind::kCuda;
  const std::string text = message_of(request).dump();
  const LoadTrainer load = [cuda, &text] {
    using Prepare = void (*)(const char*);
    reinterpret_cast<Prepare>(trainer_function(kPrepare, cuda))(text.c_str());
    return reinterpret_cast<RankMain>(trainer_function(kRankMain, cuda));
  };
  const ResumeHint hint = [](const std::string& run_folder) {
    return "next    " +
           (run_folder.empty() ? command_line() : resume_command(command_line(), run_folder));
  };
  const NewestState newest_state = [](const std::string& run_folder) {
    const auto states = run_folder.empty() ? std::vector<NumberedFile>() : find_states(run_folder);
    return states.empty() ? "" : states.front().path.filename().string();
  };
  const CommandPlace place{command_line(), run_options.run_dir};
  const RecordEnd record = [&place](const AttemptEnd& end) { record_end(end, place); };
  const bool tracks = !run_options.track.empty();
  const auto at_work = tracks ? start_tracking : std::function<void(const std::string&)>();
  keep_log_lines();
  try {
    const bool worker = launch.world.role == World::Role::kWorker;
    const WorldEnd end = (worker ? run_worker : gantrain::launch)({launch.world,
                                                                   launch.options,
                                                                   text,
                                                                   load,
                                                                   hint,
                                                                   record,
                                                                   run_options.run_dir,
                                                                   run_options.out,
                                                                   nullptr,
                                                                   at_work,
                                                                   newest_state,
                                                                   launch.invitation});
    ignore_late_signals();
    if (tracks) end_tracking(launch, end);
    if (end.run_folder.empty()) own.undo();
    if (!worker) return end;
    std::fflush(nullptr);
    _exit(launch.code_of(end.code));  // static destructors would wait for peers that may be dead
  } catch (const UserError& e) {
    record_refusal(launch.world, e, place);
    if (is_refusal(static_cast<int>(e.code()))) own.undo();
    throw;
  }
}

int smoke(const Launch& launch) {
  const WorldEnd end = run(launch);
  if (end.code != 0) return launch.code_of(end.code);
  const std::string model = read_file(find_models(end.run_folder).front().path);
  uint64_t header = 0;  // a safetensors file: length, header, tensors
  std::memcpy(&header, model.data(), sizeof(header));
  fmt::print("SMOKE OK {}\n", sha256(std::string_view(model).substr(sizeof(header) + header)));
  return 0;
}

bool any_given(const Config& config) {
  for (const char* key : {"nproc", "nnodes", "node_rank", "master_addr", "master_port"}) {
    if (config.given(std::string("launch.") + key)) return true;
  }
  return false;
}

// With --nproc and --threads left open, a run of this machine's CPU alone uses its cores as is
// fastest.
void use_processors_well(Launch& launch, Config config) {
  const World& world = launch.world;
  const bool alone = world.role == World::Role::kLauncher && world.source == "local" &&
                     world.ranks.nodes == 1 && launch.device == DeviceKind::kCpu;
  if (!alone) return;
  const std::string line =
      choose_processors(config, launch.config, usable_cores(), time_uses_in_child);
  if (line.empty()) return;
  launch = prepare(config, /*flags_given=*/false, /*planned=*/false);
  launch.chosen.push_back(line);
}

// The data must not grow by what the run writes. Folders of runs within the data are left out when
// it is read, so that a run that has begun there may go on.
void check_apart(const RunOptions& run, const std::string& data) {
  std::error_code error;
  if (!std::filesystem::is_directory(data, error)) return;
  const std::string own = run.run_dir.empty() ? run.out : run.run_dir;
  const bool same = std::filesystem::equivalent(own, data, error);
  const bool begun = !run.run_dir.empty() && !find_states(run.run_dir).empty();
  if (!same && (begun || !lies_in(own, data))) return;
  fail(Exit::kUsage,
       "{} {}: the run would write {} the data folder {}; name a folder outside of it by --out or "
       "--run-dir",
       run.run_dir.empty() ? "--out" : "--run-dir",
       own,
       same ? "into" : "below",
       data);
}

// What a plan names must be there, as the run would find it. Returns what it would say of the data.
std::vector<std::string> check_plan(const Config& config, const PictureSizes& sizes) {
  const auto run = config.read<RunOptions>();
  if (run.resume != "auto" && run.resume != "none") check_resumable(run.resume);
  const bool begins = run.resume == "none" || find_states(run.run_dir).empty();
  if (begins && !run.init_from.empty()) find_model(run.init_from);
  if (sizes.counts.empty() && sizes.pictures > 0) {
    fail(Exit::kInput,
         "{0}: {1}, and none of those that were looked at can be read; {2} data inspect {0} says "
         "why",
         text_of(config.get("data.path")),
         counted(sizes.pictures, "picture"),
         program());
  }
  std::vector<std::string> lines;
  const std::string freeze = text_of(config.get("recipe")) + ".freeze_d";
  const bool resumes = run.resume != "auto" && run.resume != "none";
  if (begins && !resumes && run.init_from.empty() && config.has(freeze) && config.get(freeze) != 0)
    lines.push_back(
        fmt::format("warning {}: without --init-from all of D's layers are drawn at "
                    "random, and the run is refused",
                    freeze));
  if (sizes.counts.empty()) return lines;
  const auto data = config.read<DataOptions>();
  const std::string warning = enlargement_warning(sizes, data);
  lines.push_back(fmt::format(
      "data    {}, {} of {}", data.path, counted(sizes.pictures, "picture"), sizes_text(sizes)));
  if (!warning.empty()) lines.push_back("warning " + warning);
  return lines;
}

// Looks at the data and at what the run begins with, as far as that decides its size, and all of it
// where a run is `planned`. Returns lines that say what was found.
std::vector<std::string> look_at_what_is_there(Config& config, bool planned) {
  const auto data = config.read<DataOptions>();
  check_apart(config.read<RunOptions>(), data.path);
  std::optional<PictureSizes> sizes;
  const auto look = [&] {
    if (!sizes) sizes = look_at_data({.config = config.to_json(), .labels = planned});
    return *sizes;
  };
  const std::string chosen = choose_resolution(config, look);
  std::vector<std::string> lines;
  if (planned) lines = check_plan(config, data.path == "synth:shapes" ? PictureSizes() : look());
  if (!chosen.empty()) lines.push_back(chosen);
  return lines;
}

// Does what may find fault with a flag, which is then quoted as it was typed.
template <class Work>
auto quoting_as_typed(const TrainArguments& args, const Work& work) {
  try {
    return work();
  } catch (const UserError& e) {
    throw UserError(e.code(), as_typed(e.what(), args.own.taken));
  }
}

Config resolve_arguments(const TrainArguments& args) {
  return quoting_as_typed(args, [&] { return resolve(args.sources, current_environment()); });
}

Launch prepare_arguments(const TrainArguments& args, const Config& config) {
  return quoting_as_typed(
      args, [&] { return prepare(config, any_given(config), args.dry_run == "short"); });
}

// What a node that asks to join the run has to do: the same command in the same folder.
std::string invitation_to(const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  return Json{{"folder", folder}, {"words", arguments}}.dump();
}

int run_train(const std::vector<std::string>& arguments) {
  TrainArguments args;
  if (!parse_arguments(arguments, args)) return 0;
  if (args.json && args.dry_run.empty())
    fail(Exit::kUsage, "--json goes with --dry-run; stats.jsonl in the run folder is JSON always");
  set_log({args.quiet || (!args.dry_run.empty() && args.json) ? Level::kWarning
           : args.verbose                                     ? Level::kDebug
                                                              : Level::kInfo,
           Level::kInfo,
           {},
           ""});
  Config config = resolve_arguments(args);
  const std::vector<std::string> of_data = look_at_what_is_there(config, !args.dry_run.empty());
  Launch launch = prepare_arguments(args, config);
  const Shown shown = args.verbose ? Shown::kAll : Shown::kSet;
  const auto tell_first = [&] {
    launch.chosen.insert(launch.chosen.begin(), of_data.begin(), of_data.end());
    launch.chosen.insert(launch.chosen.begin(), args.own.lines.begin(), args.own.lines.end());
  };
  if (!args.dry_run.empty()) tell_first();
  if (args.dry_run == "short") return dry_run(launch, args.json ? Shown::kJson : shown);
  if (args.dry_run == "full") {
    if (!args.json) dry_run(launch, shown);
    const DescribeRequest request{
        .config = launch.config,
        .json = args.json,
        .cuda = launch.device == DeviceKind::kCuda,
        .world = launch.world.ranks.world,
        .threads = threads_per_rank(launch.options, current_environment(), 1)};
    return call_trainer("describe", request, /*cuda=*/false);
  }
  if (already_done(config)) return 0;
  if (!args.sources.smoke) use_processors_well(launch, config);
  tell_first();
  launch.stopped_code = static_cast<int>(args.stopped_code);
  if (launch.options.nnodes_min) launch.invitation = invitation_to(arguments);
  return args.sources.smoke ? smoke(launch) : launch.code_of(run(launch).code);
}

}  // namespace

std::optional<PlannedConfig> planned_config(const std::vector<std::string>& words,
                                            const std::string& planner,
                                            const std::vector<std::string>& before) {
  TrainArguments args, of_verb;
  if (!parse_arguments(words, args) || !parse_arguments(before, of_verb)) return std::nullopt;
  if (!args.dry_run.empty() || args.json || args.sources.smoke)
    fail(Exit::kUsage, "{} is for a training: leave out --dry-run, --json and --smoke", planner);
  if (args.stopped_code != static_cast<int>(Exit::kStopped))
    fail(
        Exit::kUsage, "--stopped-code: leave it out; {} knows by 75 that a run can go on", planner);
  const auto own = args.sources.flags;
  auto& flags = args.sources.flags;
  flags.insert(flags.begin(), of_verb.sources.flags.begin(), of_verb.sources.flags.end());
  if (args.sources.preset.empty()) args.sources.preset = of_verb.sources.preset;
  PlannedConfig planned{resolve_arguments(args), {}};
  for (const auto& [flag, value] : own) {
    planned.given.insert(flag == "--set"
                             ? full_key(planned.config, value.substr(0, value.find('=')), flags)
                             : key_of_flag(flag));
    if (flag != "--set" && is_range(flag, value)) planned.given.insert(key_of_flag(flag) + "_min");
  }
  return planned;
}

void check_training(Config config, const TrainingSite& site) {
  const char* origin = "planned";
  config.set("launch.nnodes", Json(site.nodes), origin);
  config.set("launch.nproc", Json(site.ranks_per_node), origin);
  config.set("launch.device", Json(site.on_gpu ? "cuda" : "cpu"), origin);
  if (site.nodes > 1) {
    config.set("launch.master_addr", Json("the-first-node"), origin);
    config.set("launch.master_port", Json(29500), origin);
  }
  prepare(config, /*flags_given=*/true, /*planned=*/true);
}

PlannedTraining plan_training(Config config) {
  look_at_what_is_there(config, /*planned=*/false);
  const Launch launch = prepare(config, any_given(config), /*planned=*/false);
  return {launch.config, launch.device, launch.gpus};
}

Verb train_verb() {
  const auto describe = [] { return description_of<TrainArguments>("train", kTrainAbout); };
  return {"train",
          "train a GAN on one to many devices (the verb may be left out)",
          describe,
          run_train};
}

}  // namespace gantrain
