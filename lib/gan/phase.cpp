// SPDX-License-Identifier: Apache-2.0
#include "gan/phase.h"

namespace gantrain {

PhaseOutput Phase::run(const PhaseInput& input) const {
  RunningStatistics running;
  PhaseOutput output;
  {
    const RunningStatisticsScope noted(running);
    output = loss(input);
  }
  output.running.add(running);
  return output;
}

}  // namespace gantrain
