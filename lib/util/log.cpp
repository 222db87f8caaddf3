// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <mutex>

#include "util/color.h"
#include "util/error.h"
#include "util/file.h"
#include "util/kept_log.h"
#include "util/standard_error.h"
#include "util/time.h"

namespace gantrain {

namespace {

struct State {
  std::mutex mutex;
  LogSettings settings;
  std::string live;
  bool keeps = false;
  std::vector<std::string> kept;
};

constexpr size_t kMostKept = 10'000;

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
  state().keeps = false;
  state().kept.clear();
}

void keep_log_lines() {
  const std::lock_guard lock(state().mutex);
  state().keeps = true;
}

std::vector<std::string> take_kept_lines() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().kept, {});
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
    const std::string said = label(level) + text;
    const std::string shown = shows_colors() ? paint_first_word(said) : said;
    write_standard_error(fmt::format("{}{}{}\n{}", clear, s.settings.prefix, shown, s.live));
  }
  const std::string line = fmt::format("{} {}{}", timestamp(), label(level), text);
  if (s.keeps && level <= Level::kInfo && s.kept.size() < kMostKept) s.kept.push_back(line);
  if (s.settings.file.empty() || level > s.settings.to_file) return;
  try {
    append_line(s.settings.file, line);
  } catch (const UserError&) {
    // An error is told while another one is being handled, which a full disk must not replace.
    if (level != Level::kError) throw;
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
