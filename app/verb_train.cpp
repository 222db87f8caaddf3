// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "auto_values.h"
#include "cli.h"
#include "config/message.h"
#include "config/presets.h"
#include "data/workers.h"
#include "device_choice.h"
#include "distributed/options.h"
#include "distributed/timeouts.h"
#include "dry_run.h"
#include "flags.h"
#include "gan/precision_options.h"
#include "habits.h"
#include "launch/allocation.h"
#include "launch/devices.h"
#include "launch/early_stop.h"
#include "launch/supervise.h"
#include "resolve.h"
#include "run_status.h"
#include "schema.h"
#include "train/model_options.h"
#include "train/plan.h"
#include "train/run_folder.h"
#include "train_request.h"
#include "trainer_library.h"
#include "training_plan.h"
#include "util/cores.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/kept_log.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"
#include "verb_requests.h"

namespace gantrain {

namespace {

struct Arguments {
  ConfigSources request;
  std::string dry_run;  // "", "short" or "full"
  int stopped_code = static_cast<int>(Exit::kStopped);
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::vector<std::string> taken;  // what flags of other trainers were taken for
};

bool parse_arguments(const std::vector<std::string>& arguments, Arguments& out) {
  CLI::App app("Train a GAN. Without flags: preset dcgan on built-in pictures.",
               "gantrain [train]");
  ConfigSources& request = out.request;
  const CLI::Option* preset =
      app.add_option("--preset", request.preset, "named starting point: gantrain presets list")
          ->group("What")
          ->take_last();
  app.add_option("--config,--config-file",
                 request.config_file,
                 "JSON with comments, or config.json of a run")
      ->group("What")
      ->take_last();
  std::vector<std::string> pairs;
  const CLI::Option* set =
      app.add_option("--set,--cfg-options", pairs, "key=value, any key of gantrain help keys")
          ->group("What");
  app.add_flag("--smoke",
               request.smoke,
               "two CPU ranks, 16 pixels, under a minute: does all of it work here?")
      ->group("What");
  const Config defaults(full_schema(recipe_facts().front().name));
  std::map<std::string, std::string> values;
  std::map<const CLI::Option*, std::string> names;
  for (const Flag& flag : flag_table()) {
    const Key& key = defaults.key(flag.key);
    const std::string shown = split(flag.names, ',')[0];
    std::string& value = values[shown];
    const std::string alone = flag.alone == nullptr ? "" : fmt::format("{{{}}}", flag.alone);
    CLI::Option* option = flag.is_switch ? app.add_flag(flag.names + alone, value, key.help)
                                         : app.add_option(flag.names, value, key.help);
    option->group(flag.group)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (!flag.is_switch) option->type_name(key.type.size() < 30 ? key.type : "");
    names[option] = shown;
  }
  std::string ignored;
  app.add_option(
         "--local_rank,--local-rank", ignored, "accepted from old launchers; LOCAL_RANK counts")
      ->group("Where");
  app.add_option("--stopped-code",
                 out.stopped_code,
                 "exit code instead of 75 of a run that has saved and can go on; Kubeflow's policy "
                 "ExitCode restarts from 128 on")
      ->group("Where")
      ->check(CLI::Range(1, 255));
  app.add_flag("--dry-run{short}",
               out.dry_run,
               "print what was set and the schedule, train nothing; -v: all keys; =full: sizes, "
               "time, too")
      ->group("Talk");
  app.add_flag("--json", out.json, "--dry-run as one JSON line")->group("Talk");
  app.add_flag("-q,--quiet", out.quiet, "warnings and errors only")->group("Talk");
  app.add_flag("-v,--verbose", out.verbose, "more messages")->group("Talk");
  Translation own = translate_habits(arguments, training_flag_names());
  out.taken = std::move(own.lines);
  if (!parse(app, std::move(own.arguments))) return false;
  if (preset->count() > 0 && request.preset.empty())
    fail(Exit::kUsage, "--preset needs a name; gantrain presets list shows them");
  auto pair = pairs.begin();
  for (const CLI::Option* option : app.parse_order()) {
    if (option == set) request.flags.emplace_back("--set", *pair++);
    if (const auto at = names.find(option); at != names.end())
      request.flags.emplace_back(at->second, values[at->second]);
  }
  if (!out.dry_run.empty() && out.dry_run != "short" && out.dry_run != "full") {
    fail(Exit::kUsage, "--dry-run={}: allowed: --dry-run, --dry-run=full", out.dry_run);
  }
  return true;
}

// --force names keys, "data" or "all".
void check_forced_keys(const Config& config) {
  std::vector<std::string> known = {"all", "data"};
  for (const Key& key : config.schema()) known.push_back(key.path);
  for (const std::string& part : split(config.read<RunOptions>("run.").force, ',')) {
    if (part.empty() || std::find(known.begin(), known.end(), part) != known.end()) continue;
    fail(Exit::kUsage, "--force {}: no such key{}", part, did_you_mean(part, known));
  }
}

// Each node chooses for itself, so the configuration keeps "auto".
void say_workers(Launch& launch, const Env& env) {
  const int64_t ranks = launch.world.ranks.local_world;
  const int64_t computing = launch.device == DeviceKind::kCuda
                                ? kThreadsBesideGpu
                                : threads_per_rank(launch.options, env, ranks);
  const std::string line =
      workers_text(launch.config.read<DataOptions>("data."),
                   {.cores = usable_cores(), .ranks = ranks, .computing = computing});
  if (!line.empty()) launch.chosen.push_back(line);
}

// What a GPU run lacks here, which --dry-run plans for another machine then; "" if nothing.
std::string lacking_for_gpus(const World& world, const GpuOutlook& outlook) {
  const int64_t gpus = outlook.visible.count;
  if (gpus == 0) return "no GPU is visible here";
  if (is_too_old(outlook.driver) && outlook.compatibility < kNeededCuda)
    return fmt::format("the NVIDIA driver {} here is too old", outlook.driver);
  if (!outlook.cuda_library) return "this build has no CUDA library";
  if (world.role == World::Role::kLauncher && world.ranks.local_world > gpus)
    return fmt::format("{} visible GPU{} here", gpus, gpus == 1 ? "" : "s");
  return "";
}

// Collectives give up later than the launcher's watch for hanging, which can say more.
void outlast_hang_watch(Launch& launch) {
  if (launch.world.ranks.world == 1) return;
  const double timeout = launch.config.read<DistOptions>("dist.").timeout.seconds;
  std::optional<double> given;
  if (launch.config.given("dist.timeout")) given = timeout;
  const bool watched = launch.world.role == World::Role::kLauncher;
  const double watch = watched ? launch.options.hang_timeout.seconds : 0;
  const double earlier = hang_watch(watch, launch.config.given("launch.hang_timeout"), timeout);
  if (given && earlier != watch) {
    launch.options.hang_timeout.seconds = earlier;
    launch.config.set(
        "launch.hang_timeout", Value<Duration>::to_json({earlier}), "below dist.timeout");
  }
  const double chosen = collective_timeout(given, timeout, watch);
  if (chosen == timeout) return;
  launch.config.set(
      "dist.timeout", Value<Duration>::to_json({chosen}), "above launch.hang_timeout");
}

// All that can be refused before a process is started or a file is written. If `planned`, nothing
// will be started here, and --device cuda is a plan for any machine.
Launch prepare(const Config& config, bool flags_given, bool planned) {
  Launch launch{config, config.read<LaunchOptions>("launch."), {}, {}, {}};
  const Env env = current_environment();
  const GpuOutlook outlook = gpu_outlook(launch.options.device, env);
  const bool elsewhere = planned && launch.options.device == DeviceKind::kCuda;
  const bool lowered = config.read<PrecisionOptions>("precision.").amp != Amp::kOff;
  if (lowered && !elsewhere && launch.options.device == DeviceKind::kCuda &&
      outlook.visible.count == 0 && !outlook.cuda_library) {
    fail(
        Exit::kUsage,
        "--amp with --device cuda: this build has no CUDA library; build with GANTRAIN_CUDA=ON, or "
        "use --device cpu");
  }
  launch.device = elsewhere ? DeviceKind::kCuda : decide_device(launch.options.device, outlook);
  launch.gpus = launch.device == DeviceKind::kCuda ? outlook.visible.count : 0;
  launch.world = detect_world(launch.options, flags_given, env, launch.gpus);
  const bool on_gpu = launch.device == DeviceKind::kCuda;
  if (on_gpu && !elsewhere) check_ranks_have_gpus(launch.world, outlook.visible);
  launch.device_was_auto = launch.options.device == DeviceKind::kAuto;
  launch.options.device = launch.device;  // decided: nobody below looks for GPUs again
  launch.chosen =
      choose_auto_values(launch.config, {.ranks = launch.world.ranks.world, .on_gpu = on_gpu});
  say_workers(launch, env);
  const std::string stop = allocation_stop(launch.options, env, unix_seconds()).line;
  if (!stop.empty() && !planned) launch.chosen.push_back(stop);
  const std::string lacking = elsewhere ? lacking_for_gpus(launch.world, outlook) : "";
  if (!lacking.empty())
    launch.chosen.push_back("device  cuda, planned for another machine: " + lacking);
  outlast_hang_watch(launch);
  launch.options.patience.meeting = launch.config.read<DistOptions>("dist.").timeout.seconds;
  const auto dist = config.read<DistOptions>("dist.");
  launch.backend =
      choose_backend(dist.backend, on_gpu, /*nccl_built=*/elsewhere || has_cuda_library());
  const BatchPlan plan =
      plan_batch(launch.config.read<TrainOptions>("train."), launch.world.ranks.world);
  for (const char* player : {"G", "D"}) {
    const std::string key = std::string(player) + ".accumulate";
    plan_player(
        plan, player, Value<std::optional<int64_t>>::from_text(text_of(config.get(key))).value());
  }
  check_metric_options(config.read<MetricsOptions>("metrics."),
                       config.read<SaveOptions>("save."),
                       config.read<DataOptions>("data.").path);
  models_kept(config.read<ModelOptions>("save."), config.read<SaveOptions>("save."));
  check_forced_keys(config);
  check_options(dist, launch.world.ranks.world);
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  if (config.read<DataOptions>("data.").cond == Cond::kOn && !recipe.conditional()) {
    fail(Exit::kUsage, "--cond on: recipe {} uses no labels; leave it out", recipe.name);
  }
  check_graphs(config.read<TrainOptions>("train."), on_gpu);
  check_options(launch.config.read<PrecisionOptions>("precision."),
                recipe,
                config.read<TrainOptions>("train.").dtype == Dtype::kFloat64);
  recipe.check_resolution(config.read<DataOptions>("data.").resolution);
  return launch;
}

// What the defaults chose, in one line: said by rank 0 once the run stands.
std::string defaults_chosen(const Launch& launch) {
  std::vector<std::string> parts;
  if (!launch.config.given("preset"))
    parts.push_back("no --preset: " + text_of(launch.config.get("preset")));
  if (!launch.config.given("data.path")) {
    parts.push_back(
        fmt::format("no --data: built-in pictures ({})", text_of(launch.config.get("data.path"))));
  }
  if (launch.device_was_auto && launch.device == DeviceKind::kCpu) {
    const int64_t ranks = launch.world.ranks.world;
    parts.push_back(fmt::format("no GPU visible: {} CPU rank{}", ranks, ranks == 1 ? "" : "s"));
  }
  return join(parts, "; ");
}

WorldEnd run(const Launch& launch) {
  const auto run_options = launch.config.read<RunOptions>("run.");
  // Found out now, not after the pictures were read.
  make_writable_folder(run_options.run_dir.empty() ? run_options.out : run_options.run_dir);
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
  const CommandPlace place{command_line(), run_options.run_dir};
  const RecordEnd record = [&place](const AttemptEnd& end) { record_end(end, place); };
  keep_log_lines();
  try {
    const bool worker = launch.world.role == World::Role::kWorker;
    const WorldEnd end = (worker ? run_worker : gantrain::launch)(
        launch.world, launch.options, text, load, hint, record);
    ignore_late_signals();
    if (!worker) return end;
    std::fflush(nullptr);
    _exit(launch.code_of(end.code));  // static destructors would wait for peers that may be dead
  } catch (const UserError& e) {
    record_refusal(launch.world, e, place);
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
  for (const char* key : {"launch.nproc",
                          "launch.nnodes",
                          "launch.node_rank",
                          "launch.master_addr",
                          "launch.master_port"}) {
    if (config.given(key)) return true;
  }
  return false;
}

}  // namespace

std::optional<Config> planned_config(const std::vector<std::string>& words) {
  Arguments args;
  if (!parse_arguments(words, args)) return std::nullopt;
  if (!args.dry_run.empty() || args.json || args.request.smoke)
    fail(Exit::kUsage, "--dry-run, --json and --smoke are no training that can be planned");
  if (args.stopped_code != static_cast<int>(Exit::kStopped))
    fail(Exit::kUsage, "--stopped-code: a batch script needs 75 to know a run that goes on");
  return resolve(args.request, current_environment());
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

int train_verb(const std::vector<std::string>& arguments) {
  Arguments args;
  if (!parse_arguments(arguments, args)) return 0;
  set_log({args.quiet || (!args.dry_run.empty() && args.json) ? Level::kWarning
           : args.verbose                                     ? Level::kDebug
                                                              : Level::kInfo,
           Level::kInfo,
           {},
           ""});
  const Config config = resolve(args.request, current_environment());
  Launch launch = prepare(config, any_given(config), args.dry_run == "short");
  launch.chosen.insert(launch.chosen.begin(), args.taken.begin(), args.taken.end());
  const Shown shown = args.verbose ? Shown::kAll : Shown::kSet;
  if (args.dry_run == "short") return dry_run(launch, args.json ? Shown::kJson : shown);
  if (args.dry_run == "full") {
    if (!args.json) dry_run(launch, shown);
    const DescribeRequest request{
        .config = launch.config.to_json(),
        .json = args.json,
        .cuda = launch.device == DeviceKind::kCuda,
        .world = launch.world.ranks.world,
        .threads = threads_per_rank(launch.options, current_environment(), 1)};
    return call_trainer("describe", message_of(request).dump(), /*cuda=*/false);
  }
  if (already_done(config)) return 0;
  launch.stopped_code = args.stopped_code;
  return args.request.smoke ? smoke(launch) : launch.code_of(run(launch).code);
}

}  // namespace gantrain
