// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// What the benchmarks share to describe several measurements. No torch.

// Returns {"median": m, "quartiles": [a, b]} of several measurements.
Json spread_of(const std::vector<double>& values);
// Returns {"ratio": r, "interval": [a, b]}: the geometric mean and its 95 % interval, which a
// single ratio has not.
Json ratio_of(const std::vector<double>& ratios);
// Returns the paired quotients a[i] / b[i].
std::vector<double> quotients(const std::vector<double>& a, const std::vector<double>& b);
// Returns "0.612 (0.598 .. 0.626)" for ratio_of(); "0.612" where there was one measurement.
std::string ratio_text(const Json& ratio);

// Returns the seconds that the work takes.
double seconds_of(const std::function<void()>& work);
// Calls all measurements `rounds` times, in the order AB BA AB ...
void in_turns(int64_t rounds, const std::vector<std::function<void()>>& measurements);

// Returns how many processes wanted to run in the last minute: what disturbs the clock.
double load_average();

}  // namespace gantrain
