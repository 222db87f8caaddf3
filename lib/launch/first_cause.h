// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launch/node_message.h"

namespace gantrain {

// Finds the first cause of a failure from what the launchers of all nodes report. A failure of a
// rank's own decides at once, the one that was reported first. Where there are only ranks that
// lost a peer or wait for one, such a report has two seconds to come; then it is the rank that has
// come least far, if one is certainly behind, or else the first report. A value that knows no
// clock.
class FirstCause {
 public:
  void add(const NodeReport& report, double now);

  // The time from which decide() has an answer; nothing as long as there is no trouble.
  std::optional<double> deadline() const;
  // Nothing as long as the cause may still show.
  std::optional<Outcome> decide(double now) const;

 private:
  std::vector<NodeReport> reports_;
  std::optional<double> first_at_;  // when the first trouble was reported
};

}  // namespace gantrain
