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

// Where messages of this process go. Standard error always; with `file` also there, with a time.
// The log is the one thing a process has one of: it is set once, at its top.
struct LogSettings {
  Level console = Level::kInfo;  // ranks other than 0: kError
  Level to_file = Level::kInfo;  // ranks other than 0: kWarning
  std::filesystem::path file;    // empty: none
  std::string prefix;            // "[rank 1] " or ""
};
void set_log(const LogSettings& settings);
Level log_console_level();

// One whole line to standard error in one write, after clearing a live bar if one is drawn.
void log_line(Level level, const std::string& text);

// To the file alone, whatever the level: what the live bar shows on a terminal.
void log_to_file(const std::string& text);

// What the live bar last drew, so that log_line can clear it. Empty: no bar. See report/console.
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
