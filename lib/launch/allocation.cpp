// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation.h"

#include <algorithm>

#include "launch/foreign.h"
#include "util/error.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr double kUsualMargin = 300;
constexpr double kShareOfShort = 0.1;
constexpr int64_t kLastEnd = 253'402'300'799;  // the year 9999: an end that never comes

}  // namespace

AllocationStop allocation_stop(const LaunchOptions& options, const Env& env, double now) {
  const bool given = options.time_margin.has_value();
  if (given && options.time_margin->seconds == 0) return {};
  const auto end = number_in(env, "SLURM_JOB_END_TIME");
  if (!end) {
    if (!given) return {};
    return {std::nullopt,
            "margin  --time-margin: no SLURM_JOB_END_TIME says when the allocation ends, so only "
            "signals and --stop-after stop this run"};
  }
  if (*end < 0)
    fail(Exit::kEnvironment, "SLURM_JOB_END_TIME={} in the environment is before 1970", *end);
  if (*end > kLastEnd) return {};
  const double left = static_cast<double>(*end) - now;
  if (!given && left <= 0) {
    return {
        std::nullopt,
        fmt::format("margin  none: SLURM_JOB_END_TIME={} has passed; is the clock right?", *end)};
  }
  const double margin =
      given ? options.time_margin->seconds : std::min(kUsualMargin, kShareOfShort * left);
  if (left <= margin) {
    return {0,
            fmt::format("margin  the allocation ends at {}, which is less than --time-margin {} "
                        "away: the run stops after one iteration",
                        timestamp(static_cast<double>(*end)),
                        short_duration(margin))};
  }
  return {left - margin,
          fmt::format("margin  the allocation ends at {}: the run saves and stops {} before",
                      timestamp(static_cast<double>(*end)),
                      short_duration(margin))};
}

}  // namespace gantrain
