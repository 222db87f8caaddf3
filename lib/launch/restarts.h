// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/options.h"
#include "launch/outcome.h"
#include "launch/report.h"

namespace gantrain {

// What makes a failure the same one as another: the signal or the message, without numbers such as
// ranks and pids. "" for a rank that somebody killed before its first iteration, which says nothing
// about where it was.
std::string cause_of(const RankFailure& failure);

// Decides after each failed attempt whether the ranks are started again. The pause before that
// doubles each time, up to a minute. A failure that comes twice in a row at the same iteration
// would come again, and is not tried a third time.
class Restarts {
 public:
  explicit Restarts(const LaunchOptions& options);

  struct Decision {
    bool again = false;
    double pause = 0;       // seconds before the next attempt
    std::string note = {};  // one line for the user; may be empty if not `again`
  };
  Decision after(const Outcome& end);

 private:
  int64_t most_;
  double next_pause_;
  int64_t number_ = 0;  // of the restarts so far
  std::optional<Outcome> before_;
};

}  // namespace gantrain
