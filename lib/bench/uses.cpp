// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "bench/requests.h"
#include "bench/worlds.h"
#include "util/system.h"

namespace gantrain {

namespace {

constexpr double kBudget = 8;    // seconds for all ways together
constexpr double kEnough = 0.4;  // seconds of iterations that are timed of each

// The mean seconds of an iteration of ranks that wait for each other.
double seconds_of_use(const TimeUsesRequest& request,
                      const ProcessorUse& use,
                      FindRecipe find_recipe,
                      int64_t steps) {
  const StepBench bench{.config = request.config,
                        .recipe = find_recipe(text_of(request.config.get("recipe"))),
                        .warm = 1,
                        .steps = steps,
                        .all_phases = true};
  double seconds = 0;
  for (const StepTimes& rank : time_ranks(use.ranks, bench, use.threads))
    seconds = std::max(seconds, rank.mean_iteration());
  return seconds;
}

}  // namespace

int time_uses(const TimeUsesRequest& request, FindRecipe find_recipe) {
  const double end = monotonic_seconds() + kBudget;
  std::vector<double> seconds(request.uses.size(), 0.0);
  seconds.front() = seconds_of_use(request, request.uses.front(), find_recipe, 2);
  if (seconds.front() <= request.most_seconds && seconds.front() >= request.least_seconds) {
    const auto steps =
        static_cast<int64_t>(std::clamp(kEnough / std::max(seconds.front(), 1e-4), 2.0, 20.0));
    for (size_t i = 0; i < seconds.size() && monotonic_seconds() < end; ++i)
      seconds[i] = seconds_of_use(request, request.uses[i], find_recipe, steps);
  }
  fmt::print("{}\n", Json(seconds).dump());
  return 0;
}

}  // namespace gantrain
