// SPDX-License-Identifier: Apache-2.0

#include <set>

#include "config/resolve.h"
#include "config/schema.h"
#include "data/options.h"
#include "gan/options.h"
#include "launch/local/elastic.h"
#include "launch/local/processes.h"
#include "launch/local/supervise.h"
#include "launch/where/devices.h"
#include "launch/where/network.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "track/track.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/train_request.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// --force names keys, "data" or "all".
void check_forced_keys(const Config& config) {
  std::vector<std::string> known = {"all", "data"};
  for (const Key& key : config.schema()) known.push_back(key.path);
  for (const std::string& part : split(config.read<RunOptions>().force, ',')) {
    if (part.empty() || contains(known, part)) continue;
    fail(Exit::kUsage,
         "--force {}: no such key; keys of the configuration, data and all are allowed{}",
         part,
         did_you_mean(part, known));
  }
}

// Each node chooses for itself, so the configuration keeps "auto".
void say_workers(Launch& launch, const Env& env) {
  const int64_t ranks = launch.world.ranks.local_world;
  const int64_t computing = launch.device == DeviceKind::kCuda
                                ? kThreadsBesideGpu
                                : threads_per_rank(launch.options, env, ranks);
  const std::string line =
      workers_text(launch.config.read<DataOptions>(),
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
    return counted(gpus, "visible GPU") + " here";
  return "";
}

void prepare_elastic(Launch& launch) {
  const World& world = launch.world;
  if (world.role != World::Role::kLauncher) {
    fail(Exit::kUsage,
         "--nproc MIN:MAX and --nnodes MIN:MAX: here {} starts the ranks, and gantrain cannot "
         "start others; leave them out",
         world.source);
  }
  if (launch.options.nnodes_min && world.source != "local" && !world.least_nodes) {
    fail(Exit::kUsage,
         "--nnodes MIN:MAX: here {} says which nodes take part, and ends all when one ends; leave "
         "it out",
         world.source);
  }
  check_elastic(launch.options, launch.world.ranks);
  if (!launch.config.given("train.uneven"))
    launch.config.set("train.uneven", true, "an elastic run's ranks need not divide the batch");
}

// Collectives give up later than the launcher's watch for hanging, which can say more.
void outlast_hang_watch(Launch& launch) {
  if (launch.world.ranks.world == 1) return;
  const double timeout = launch.config.read<DistOptions>().timeout.seconds;
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

// A loss of ranks must not end an elastic run because of what is known before.
void check_shared_statistics(const Launch& launch) {
  if (!is_elastic(launch.options) || !launch.config.read<DistOptions>().sync_bn) return;
  const int64_t batch = launch.config.read<TrainOptions>().batch;
  const LaunchOptions& o = launch.options;
  int64_t ranks = o.nproc_min.value_or(1) * o.nnodes_min.value_or(1);
  while (ranks <= launch.world.ranks.world && batch % ranks == 0) ++ranks;
  if (ranks > launch.world.ranks.world) return;
  fail(Exit::kUsage,
       "dist.sync_bn: {}, as this run may have, do not divide the batch of {}, and unequal shares "
       "have no common batch statistics; give another --batch or --nproc MIN:MAX, or leave it off",
       counted(ranks, "rank"),
       batch);
}

// Rank 0's process has a connection of the store with each rank, and with gloo each process has
// another one with each. The ranks have the limit of this process.
void need_connections(const Launch& launch) {
  constexpr int64_t kOwnFiles = 200;  // of data, libraries and results
  const RankInfo& ranks = launch.world.ranks;
  const bool has_rank_0 =
      launch.world.role == World::Role::kWorker ? ranks.rank == 0 : ranks.node_rank == 0;
  const int64_t store = has_rank_0 ? ranks.world : 1;
  const int64_t mesh = launch.backend == BackendKind::kGloo ? ranks.world : 0;
  need_descriptors(store + mesh + kOwnFiles,
                   fmt::format("a rank of {}", counted(ranks.world, "rank")));
}

}  // namespace

Launch prepare(const Config& config, bool flags_given, bool planned) {
  Launch launch{config, config.read<LaunchOptions>(), {}, {}, {}};
  const Env env = current_environment();
  const GpuOutlook outlook = gpu_outlook(launch.options.device, env);
  const bool elsewhere = planned && launch.options.device == DeviceKind::kCuda;
  const bool lowered = config.read<PrecisionOptions>().amp != Amp::kOff;
  if (lowered && !elsewhere && launch.options.device == DeviceKind::kCuda &&
      outlook.visible.count == 0 && !outlook.cuda_library) {
    fail(Exit::kUsage,
         "--amp with --device cuda: this build has no CUDA library: {}, or use --device cpu",
         outlook.way_out);
  }
  launch.device = elsewhere ? DeviceKind::kCuda : decide_device(launch.options.device, outlook);
  launch.gpus = launch.device == DeviceKind::kCuda ? outlook.visible.count : 0;
  launch.world = detect_world(launch.options, flags_given, env, launch.gpus);
  if (launch.world.least_nodes && !launch.options.nnodes_min) {
    launch.options.nnodes_min = launch.world.least_nodes;
    launch.config.set("launch.nnodes_min", *launch.world.least_nodes, "PET_NNODES");
  }
  if (is_elastic(launch.options)) prepare_elastic(launch);
  const bool on_gpu = launch.device == DeviceKind::kCuda;
  if (on_gpu && !elsewhere) check_ranks_have_gpus(launch.world, outlook.visible);
  launch.device_was_auto = launch.options.device == DeviceKind::kAuto;
  launch.options.device = launch.device;  // decided: nobody below looks for GPUs again
  launch.chosen = choose_auto_values(launch.config,
                                     {.ranks = launch.world.ranks.world,
                                      .on_gpu = on_gpu,
                                      .of_node = launch.world.ranks.local_world});
  check_shared_statistics(launch);
  say_workers(launch, env);
  const std::string slow = on_gpu ? "" : slow_cpu_text(has_fast_vectors());
  if (!slow.empty()) launch.chosen.push_back(slow);
  const std::string stop = allocation_stop(launch.options, env, unix_seconds()).line;
  if (!stop.empty() && !planned) launch.chosen.push_back(stop);
  const std::string lacking = elsewhere ? lacking_for_gpus(launch.world, outlook) : "";
  if (!lacking.empty())
    launch.chosen.push_back("device  cuda, planned for another machine: " + lacking);
  outlast_hang_watch(launch);
  launch.options.patience.meeting = launch.config.read<DistOptions>().timeout.seconds;
  const auto dist = config.read<DistOptions>();
  launch.backend =
      choose_backend(dist.backend, on_gpu, /*nccl_built=*/elsewhere || !cuda_library().empty());
  if (!planned) need_connections(launch);
  const RecipeFacts& recipe = find_recipe_facts(text_of(launch.config.get("recipe")));
  auto train = launch.config.read<TrainOptions>();
  const int64_t group = train.together = recipe.group(launch.config);
  const BatchPlan plan = plan_batch(
      train,
      launch.world.ranks.world,
      {.group = group < train.batch ? group : 1, .of_node = launch.world.ranks.local_world});
  for (const char* player : {"G", "D"}) {
    const std::string key = std::string(player) + ".accumulate";
    plan_player(
        plan, player, Value<std::optional<int64_t>>::from_text(text_of(config.get(key))).value());
  }
  if (recipe.schedule != nullptr)
    check_stages(train, launch.config, recipe.schedule(launch.config), launch.world.ranks.world);
  check_metric_options(
      config.read<MetricsOptions>(), config.read<SaveOptions>(), config.read<DataOptions>().path);
  models_kept(config.read<ModelOptions>(), config.read<SaveOptions>());
  check_beginning(config.read<RunOptions>());
  parse_targets(config.read<RunOptions>().track);
  check_forced_keys(config);
  check_options(dist, launch.world.ranks.world);
  if (config.read<DataOptions>().cond == Cond::kOn && !recipe.conditional()) {
    fail(Exit::kUsage, "--cond on: recipe {} uses no labels; leave it out", recipe.name);
  }
  check_graphs(config.read<TrainOptions>(), on_gpu);
  check_options(launch.config.read<PrecisionOptions>(),
                recipe,
                config.read<TrainOptions>().dtype == Dtype::kFloat64);
  recipe.check_resolution(config.read<DataOptions>().resolution);
  return launch;
}

namespace {

double kimg(int64_t images) { return static_cast<double>(images) / 1e3; }

Json to_json(const std::vector<StagePlan>& rows) {
  Json all = Json::array();
  for (const StagePlan& row : rows) {
    all.push_back({{"from_kimg", kimg(row.stage.first)},
                   {"kimg", kimg(row.images)},
                   {"resolution", row.stage.resolution},
                   {"fading", row.stage.fading},
                   {"batch", row.plan.batch},
                   {"micro_batch", row.plan.micro_batch},
                   {"accumulate", row.plan.accumulate},
                   {"lr_factor", row.stage.lr_factor},
                   {"iterations", row.iterations}});
  }
  return all;
}

void print(const std::vector<StagePlan>& rows, const Config& config) {
  const auto rate = [&](const char* player, const Stage& stage) {
    const std::string kind = text_of(config.get(std::string(player) + ".optimizer"));
    const Json& lr = config.get(fmt::format("{}.{}.lr", player, kind));
    const auto schedule = Value<Scheduled>::from_text(text_of(lr)).value();
    return shortest(schedule.at(stage.first) * stage.lr_factor);
  };
  fmt::print(
      "\nstage  from kimg     kimg  pixels  alpha     batch  a rank       lr G      lr D  "
      "iterations\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const StagePlan& row = rows[i];
    const std::string cut = row.plan.accumulate == 1
                                ? shortest(static_cast<double>(row.plan.micro_batch))
                                : fmt::format("{} x {}", row.plan.micro_batch, row.plan.accumulate);
    fmt::print("{:>5}  {:>9}  {:>7}  {:>6}  {:<8}  {:>5}  {:>6}  {:>9}  {:>8}  {:>10}\n",
               i + 1,
               shortest(kimg(row.stage.first)),
               shortest(kimg(row.images)),
               row.stage.resolution,
               row.stage.fading ? "0 to 1" : "1",
               row.plan.batch,
               cut,
               rate("G", row.stage),
               rate("D", row.stage),
               row.iterations);
  }
}

void print_keys(const Config& config, bool all) {
  size_t left_out = 0;
  for (const Key& key : config.schema()) {
    if (!all && config.origin(key.path) == "default") {
      ++left_out;
      continue;
    }
    print_text(
        "{:<30} {:<16} {}\n", key.path, text_of(config.get(key.path)), config.origin(key.path));
  }
  if (left_out > 0) fmt::print("{} more keys have their defaults: -v shows them\n", left_out);
}

// What each hyperparameter that moves does; `ema.half_life` counts kimg.
void print_ramps(const Config& config) {
  bool first = true;
  for (const Key& key : config.schema()) {
    const Json& value = config.get(key.path);
    if (!value.is_object()) continue;
    const auto ramp = Value<Scheduled>::from_text(text_of(value)).value();
    fmt::print("{}{} {}\n", first ? "\n" : "", key.path, ramp_text(ramp));
    first = false;
  }
}

// What training will warn of, once for each micro-batch.
void warn_of_split_groups(const BatchPlan& plan,
                          const std::vector<StagePlan>& stages,
                          const Config& config,
                          int64_t group) {
  std::set<std::string> said;
  std::vector<BatchPlan> plans = {plan};
  if (!stages.empty()) plans.clear();
  for (const StagePlan& stage : stages) plans.push_back(stage.plan);
  for (const BatchPlan& one : plans) {
    for (const char* player : {"D", "G"}) {
      const std::string key = std::string(player) + ".accumulate";
      const auto own = Value<std::optional<int64_t>>::from_text(text_of(config.get(key))).value();
      const int64_t micro_batch = plan_player(one, player, own).micro_batch;
      const std::string split = split_groups_text(player, micro_batch, group);
      if (!split.empty() && said.insert(split).second) warn("{}", split);
    }
  }
}

// What a rank computes with: "2 threads a rank, idle threads ...".
std::string threads_text(const Launch& launch) {
  const Env env = current_environment();
  const int64_t threads = threads_per_rank(launch.options, env, launch.world.ranks.local_world);
  return fmt::format(
      "{} a rank, {}", counted(threads, "thread"), idle_threads(env, usable_cores()).text);
}

}  // namespace

int dry_run(const Launch& launch, Shown shown) {
  const auto save = launch.config.read<SaveOptions>();
  const RecipeFacts& recipe = find_recipe_facts(text_of(launch.config.get("recipe")));
  auto train = launch.config.read<TrainOptions>();
  train.together = recipe.group(launch.config);
  const BatchPlan plan = plan_batch(train, launch.world.ranks.world);
  const Schedule schedule = recipe.schedule ? recipe.schedule(launch.config) : Schedule();
  const std::vector<StagePlan> stages = plan_stages(train, schedule, plan.world);
  warn_of_split_groups(plan, stages, launch.config, std::max<int64_t>(train.together, 1));
  const int64_t iterations = schedule.empty() ? (train.kimg.images + train.batch - 1) / train.batch
                                              : schedule.iterations_to(train.kimg.images);
  const int64_t images = schedule.empty() ? iterations * train.batch : train.kimg.images;
  const std::string device(names(launch.device)[static_cast<size_t>(launch.device)]);
  const std::string backend(names(launch.backend)[static_cast<size_t>(launch.backend)]);
  if (shown == Shown::kJson) {
    Json out = launch.config.to_json();
    out["schedule"] = {{"ranks", plan.world},
                       {"batch", plan.batch},
                       {"micro_batch", plan.micro_batch},
                       {"accumulate", plan.accumulate},
                       {"iterations", iterations},
                       {"images", images},
                       {"stages", to_json(stages)},
                       {"device", device},
                       {"backend", backend},
                       {"environment", launch.world.source},
                       {"threads", threads_text(launch)},
                       {"chosen", launch.chosen}};
    fmt::print("{}\n", out.dump());
    return 0;
  }
  print_keys(launch.config, shown == Shown::kAll);
  print_ramps(launch.config);
  for (const std::string& line : launch.chosen) fmt::print("\n{}", line);
  if (schedule.empty()) {
    fmt::print("\n{}\n", batch_text(plan, launch.config));
  } else {
    print(stages, launch.config);
    fmt::print("\n");
  }
  fmt::print("{}, {} kimg; a state every {} kimg\n",
             counted(iterations, "iteration"),
             shortest(kimg(images)),
             shortest(kimg(save.every.images)));
  const auto& least = launch.options.nnodes_min;
  fmt::print("{}{} ({}), device {}, backend {}\n",
             sizes_text(plan.world, launch.world.ranks.nodes),
             least ? fmt::format(", of which {} must be there", *least) : "",
             launch.world.source,
             device,
             plan.world == 1 ? "none" : backend);
  fmt::print("{}\n", threads_text(launch));
  return 0;
}

}  // namespace gantrain
