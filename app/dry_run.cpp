// SPDX-License-Identifier: Apache-2.0
#include "dry_run.h"

#include <algorithm>

#include "launch/devices.h"
#include "launch/idle_threads.h"
#include "schema.h"
#include "train/batch_text.h"
#include "train/stage_plan.h"
#include "util/text.h"

namespace gantrain {

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
    return number(schedule.at(stage.first) * stage.lr_factor);
  };
  fmt::print(
      "\nstage  from kimg     kimg  pixels  alpha     batch  a rank       lr G      lr D  "
      "iterations\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const StagePlan& row = rows[i];
    const std::string cut = row.plan.accumulate == 1
                                ? number(static_cast<double>(row.plan.micro_batch))
                                : fmt::format("{} x {}", row.plan.micro_batch, row.plan.accumulate);
    fmt::print("{:>5}  {:>9}  {:>7}  {:>6}  {:<8}  {:>5}  {:>6}  {:>9}  {:>8}  {:>10}\n",
               i + 1,
               number(kimg(row.stage.first)),
               number(kimg(row.images)),
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
    fmt::print(
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

// What a rank computes with: "2 threads a rank, idle threads ...".
std::string threads_text(const Launch& launch) {
  const Env env = current_environment();
  const int64_t threads = threads_per_rank(launch.options, env, launch.world.ranks.local_world);
  return fmt::format(
      "{} thread{} a rank, {}", threads, threads == 1 ? "" : "s", idle_threads(env).text);
}

}  // namespace

int dry_run(const Launch& launch, Shown shown) {
  const auto train = launch.config.read<TrainOptions>("train.");
  const auto save = launch.config.read<SaveOptions>("save.");
  const BatchPlan plan = plan_batch(train, launch.world.ranks.world);
  const RecipeFacts& recipe = find_recipe_facts(text_of(launch.config.get("recipe")));
  const Schedule schedule = recipe.schedule ? recipe.schedule(launch.config) : Schedule();
  const std::vector<StagePlan> stages = plan_stages(train, schedule, plan.world);
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
  fmt::print("{} iterations, {} kimg; a state every {} kimg\n",
             iterations,
             number(kimg(images)),
             number(kimg(save.every.images)));
  fmt::print("{} on {} node{} ({}), device {}, backend {}\n",
             plan.world == 1 ? "1 rank" : fmt::format("{} ranks", plan.world),
             launch.world.ranks.nodes,
             launch.world.ranks.nodes == 1 ? "" : "s",
             launch.world.source,
             device,
             plan.world == 1 ? "none" : backend);
  fmt::print("{}\n", threads_text(launch));
  return 0;
}

}  // namespace gantrain
