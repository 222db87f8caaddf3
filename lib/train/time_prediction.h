// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace gantrain {

// How long a run will take, foretold once a session, after a few iterations.
class TimePrediction {
 public:
  // Seconds an iteration, after the iteration that makes it known; nothing after all others.
  std::optional<double> after_iteration();

 private:
  int64_t iterations_ = 0;
  double warm_at_ = 0;  // monotonic seconds after the first iteration
};

}  // namespace gantrain
