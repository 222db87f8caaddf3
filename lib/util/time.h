// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// Seconds since an arbitrary start, never going back.
double monotonic_seconds();
// Seconds since 1970 (UTC).
double unix_seconds();
// "2026-01-12 09:14:31", local time, of unix_seconds() (or of `when`).
std::string timestamp(double when = unix_seconds());

// "90", "60s", "5m", "23h30m", "1d" in seconds; nothing if it is not a duration.
std::optional<double> parse_duration(std::string_view text);
// "45s", "3m21s", "6h54m", "1d02h".
std::string short_duration(double seconds);

}  // namespace gantrain
