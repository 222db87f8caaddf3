// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// Returns the seconds since an arbitrary start; the number never decreases.
double monotonic_seconds();
// Returns the seconds since 1970 (UTC).
double unix_seconds();
// Returns the local time of `when` as "2026-01-12 09:14:31".
std::string timestamp(double when = unix_seconds());

// Reads a duration in seconds, such as "90", "60s", "5m", "23h30m", "1d"; returns nothing for other
// texts.
std::optional<double> parse_duration(std::string_view text);
// Returns a short text for a duration: "45s", "3m21s", "6h54m", "1d02h".
std::string short_duration(double seconds);

}  // namespace gantrain
