// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace gantrain {

// By how many seconds a collective outlasts the launcher's watch at least, where nobody said else.
inline constexpr double kTimeoutMargin = 60;

// The seconds after which a collective gives up. Where the launcher watches for hanging, it is to
// find a hang first, since it sees all ranks and can say which one is behind. So without a value of
// the user's it is the default, or the launcher's watch and a margin if that is longer. A shorter
// value that the user gave is obeyed: the launcher then names the rank for which the others waited.
// `watch` is launch.hang_timeout in seconds; 0: there is no watch. A pure function.
double collective_timeout(std::optional<double> given, double default_timeout, double watch);

// The seconds after which the launcher takes a silent rank as hanging, where collectives give up
// after `timeout` seconds: `watch`, or, if nobody gave it and it would come too late to say which
// rank is behind, four fifths of the timeout. 0: there is no watch. A pure function.
double hang_watch(double watch, bool watch_given, double timeout);

}  // namespace gantrain
