// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "config/resolve.h"
#include "config/value.h"
#include "gan/options.h"
#include "launch/options.h"
#include "launch/where/environment.h"
#include "recipes/facts.h"
#include "train/options.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "train/train_request.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kNproc = "launch.nproc";
constexpr const char* kThreads = "launch.threads";
constexpr const char* kOrigin = "auto (measured)";
// A run of fewer iterations ends before a measurement of some seconds has paid, whatever its
// networks.
constexpr int64_t kFewIterations = 500;
constexpr double kShortRun = 20;         // seconds of the plain default
constexpr double kSlowIteration = 1;     // seconds: measuring would take too long
constexpr double kClearlyFaster = 0.97;  // of the plain default's time

// Every key's value in a run on so many ranks of this CPU.
Json values_on(Config config, int64_t ranks) {
  choose_auto_values(config, {.ranks = ranks, .on_gpu = false});
  Json values;
  for (const Key& key : config.schema()) values[key.path] = config.get(key.path);
  return values;
}

// Whether each rank's share of each batch of the run can be had, and has whole groups.
bool shares_are_whole(const Config& config, const RecipeFacts& recipe, int64_t ranks) {
  const int64_t group = recipe.together == nullptr ? 1 : recipe.together(config);
  const auto fits = [&](const BatchPlan& plan) {
    for (const char* player : {"G", "D"}) {
      const std::string key = std::string(player) + ".accumulate";
      plan_player(
          plan, player, Value<std::optional<int64_t>>::from_text(text_of(config.get(key))).value());
    }
    return plan.micro_batch % std::max<int64_t>(group, 1) == 0;
  };
  const auto train = config.read<TrainOptions>();
  const Schedule schedule = recipe.schedule ? recipe.schedule(config) : Schedule();
  try {
    if (schedule.empty()) return fits(plan_batch(train, ranks));
    const std::vector<StagePlan> stages = plan_stages(train, schedule, ranks);
    return std::ranges::all_of(stages, [&](const StagePlan& stage) { return fits(stage.plan); });
  } catch (const UserError&) {
    return false;  // the batch does not divide, or what the user said of it does not
  }
}

int64_t iterations_of(const Config& config, const RecipeFacts& recipe) {
  const auto train = config.read<TrainOptions>();
  const Schedule schedule = recipe.schedule ? recipe.schedule(config) : Schedule();
  if (schedule.empty()) return train.kimg.images / std::max<int64_t>(train.batch, 1);
  return schedule.iterations_to(train.kimg.images);
}

std::string text_of_use(const ProcessorUse& use) {
  return fmt::format("{} rank{} of {} thread{}",
                     use.ranks,
                     use.ranks == 1 ? "" : "s",
                     use.threads,
                     use.threads == 1 ? "" : "s");
}

void take(Config& config, const ProcessorUse& use) {
  config.set(kNproc, Json(use.ranks), kOrigin);
  config.set(kThreads, Json(use.threads), kOrigin);
}

// What the resumed run was measured to use; no ranks where it was not.
ProcessorUse use_of_resumed(const Config& config) {
  const SavedConfig saved =
      read_saved_config(resumed_run(config.read<RunOptions>()), Unreadable::kRefused);
  const auto number = [&](const char* key) -> int64_t {
    const auto found = saved.find(key);
    const bool measured = found && found->origin == kOrigin && found->value.is_number_integer();
    return measured ? found->value.get<int64_t>() : 0;
  };
  return {number(kNproc), number(kThreads)};
}

bool is_free_to_choose(const Config& config, const Env& env) {
  const auto launch = config.read<LaunchOptions>();
  return !launch.nproc && !launch.threads && launch.nnodes == 1 &&
         variable(env, "OMP_NUM_THREADS").empty() && !config.read<TrainOptions>().deterministic;
}

std::string line_of(const std::vector<ProcessorUse>& uses,
                    const std::vector<double>& seconds,
                    size_t best,
                    const std::string& left_out) {
  std::string others;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (i != best && seconds[i] > 0)
      others += fmt::format("; {}: {:.3f} s", text_of_use(uses[i]), seconds[i]);
  }
  return fmt::format(
      "cores   {}, measured: {:.3f} s an iteration{}{}; --nproc and --threads choose",
      text_of_use(uses[best]),
      seconds[best],
      others,
      left_out.empty() ? "" : "; " + left_out);
}

}  // namespace

std::vector<ProcessorUse> uses_of_processors(const Config& config,
                                             int64_t cores,
                                             std::string& left_out) {
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  std::vector<ProcessorUse> uses = {{1, cores}};
  if (cores > 1) uses.push_back({1, 1});
  const Json alone = values_on(config, 1);
  Config complete = config;
  choose_auto_values(complete, {.ranks = 1, .on_gpu = false});
  left_out.clear();
  for (int64_t ranks = 2; ranks <= cores; ranks *= 2) {
    if (cores % ranks != 0) continue;
    std::string why;
    if (!shares_are_whole(complete, recipe, ranks)) {
      why = "a batch that is normalised together stays in one rank";
    } else if (values_on(config, ranks) != alone) {
      why = "the recipe's automatic values depend on the number of ranks";
    } else {
      uses.push_back({ranks, cores / ranks});
    }
    if (left_out.empty()) left_out = why;
  }
  if (uses.back().ranks > 1) left_out.clear();
  return uses;
}

std::string choose_processors(Config& config,
                              const Config& complete,
                              int64_t cores,
                              const TimeUses& time) {
  if (!is_free_to_choose(config, current_environment())) return "";
  const ProcessorUse kept = use_of_resumed(config);
  if (kept.ranks > 0 && kept.threads > 0 && kept.ranks * kept.threads <= cores) {
    take(config, kept);
    return fmt::format("cores   {}, as measured when the run began", text_of_use(kept));
  }
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  const int64_t iterations = iterations_of(complete, recipe);
  if (cores < 2 || iterations < kFewIterations) return "";
  std::string left_out;
  const std::vector<ProcessorUse> uses = uses_of_processors(config, cores, left_out);
  const std::vector<double> seconds =
      time({.config = complete,
            .uses = uses,
            .most_seconds = kSlowIteration,
            .least_seconds = kShortRun / static_cast<double>(iterations)});
  if (seconds.size() != uses.size() || seconds.front() <= 0) return "";
  size_t best = 0;
  for (size_t i = 1; i < uses.size(); ++i) {
    const bool faster = seconds[i] < seconds[best] && seconds[i] < kClearlyFaster * seconds.front();
    if (seconds[i] > 0 && faster) best = i;
  }
  if (std::ranges::count_if(seconds, [](double s) { return s > 0; }) < 2) return "";
  take(config, uses[best]);
  return line_of(uses, seconds, best, left_out);
}

}  // namespace gantrain
