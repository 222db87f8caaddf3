// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <mutex>

#include "util/file.h"
#include "util/standard_error.h"
#include "util/time.h"

namespace gantrain {

namespace {

struct State {
  std::mutex mutex;
  LogSettings settings;
  std::string live;
};

State& state() {
  static State* one = new State;  // outlives every thread that may still log at exit
  return *one;
}

const char* label(Level level) {
  switch (level) {
    case Level::kError:
      return "error   ";
    case Level::kWarning:
      return "warning ";
    default:
      return "";
  }
}

}  // namespace

void set_log(const LogSettings& settings) {
  const std::lock_guard lock(state().mutex);
  state().settings = settings;
}

Level log_console_level() {
  const std::lock_guard lock(state().mutex);
  return state().settings.console;
}

void log_line(Level level, const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (level <= s.settings.console) {
    const char* clear = s.live.empty() ? "" : "\r\033[K";
    write_standard_error(
        fmt::format("{}{}{}{}\n{}", clear, s.settings.prefix, label(level), text, s.live));
  }
  if (!s.settings.file.empty() && level <= s.settings.to_file) {
    append_line(s.settings.file, fmt::format("{} {}{}", timestamp(), label(level), text));
  }
}

void log_to_file(const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.settings.file.empty()) {
    append_line(s.settings.file, fmt::format("{} {}", timestamp(), text));
  }
}

void set_live_line(const std::string& text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (text == s.live) return;
  write_standard_error("\r\033[K" + text, Unread::kDrop);
  s.live = text;
}

}  // namespace gantrain
