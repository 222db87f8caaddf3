// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace gantrain {

enum class Level { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };
constexpr std::array<std::string_view, 4> names(Level) {
  return {"error", "warning", "info", "debug"};
}

// Where messages of this process go: always to standard error, and with `file` also there, with a
// time. The log is the one global object of a process. It is set once, when the process starts.
struct LogSettings {
  Level console = Level::kInfo;  // ranks other than 0: kError
  Level to_file = Level::kInfo;  // ranks other than 0: kWarning
  std::filesystem::path file;    // empty: none
  std::string prefix;            // "[rank 1] " or ""
};
void set_log(const LogSettings& settings);
Level log_console_level();

// Writes one whole line to standard error in one write, after clearing the live bar if there is
// one, and to the file if there is one. Messages above the set level are left out. It never waits
// for whoever reads standard error.
void log_line(Level level, const std::string& text);

// Writes a line to the file alone, whatever the level: text that a terminal shows in the live bar.
void log_to_file(const std::string& text);

// Tells the log what the live bar (report/console.h) has drawn last, so that log_line can clear it.
// Empty: there is no bar.
void set_live_line(const std::string& text);

template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gantrain
