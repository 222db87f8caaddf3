// SPDX-License-Identifier: Apache-2.0
#include "distributed/timeouts.h"

#include <algorithm>

namespace gantrain {

double collective_timeout(std::optional<double> given, double default_timeout, double watch) {
  if (given) return *given;
  return watch > 0 ? std::max(default_timeout, watch + kTimeoutMargin) : default_timeout;
}

double hang_watch(double watch, bool watch_given, double timeout) {
  constexpr double kShareOfTimeout = 0.8;
  const bool late = watch > 0 && watch >= timeout;
  return late && !watch_given ? kShareOfTimeout * timeout : watch;
}

}  // namespace gantrain
