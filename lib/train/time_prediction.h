// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace gantrain {

// Predicts how long a run will take, once in a session, after a few iterations.
class TimePrediction {
 public:
  // Counts an iteration. Returns the seconds per iteration after the iteration at which they become
  // known, and nothing after all other iterations.
  std::optional<double> after_iteration();

 private:
  int64_t iterations_ = 0;
  double warm_at_ = 0;  // monotonic seconds after the first iteration
};

}  // namespace gantrain
