// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/text.h"

// Standard error of a program that must go on working when nobody reads it: a frozen ssh session, a
// terminal stopped by Ctrl-S, a pager that waits.

namespace gantrain {

// When lines on standard error have colours. A log file never has any.
enum class ColorWhen {
  kAuto,    // on a terminal, unless TERM is unset or "dumb", or NO_COLOR holds something
  kAlways,  // also through a pipe, and whatever NO_COLOR says
  kNever,
};
constexpr std::array<std::string_view, 3> names(ColorWhen) { return {"auto", "always", "never"}; }

// The variable of the environment through which --color reaches the ranks and the trainer library,
// which has a log of its own.
constexpr const char* kColorVariable = "GANTRAIN_COLOR";

// Whether standard error is a terminal on which a line can be redrawn: TERM is set and not "dumb".
bool is_live_terminal();

// Whether standard error is to have colours now, by kColorVariable and the terminal.
bool shows_colors();

enum class Color : int64_t { kRed = 31, kGreen = 32, kYellow = 33, kCyan = 36 };
// Returns the text between the sequences that begin and end a colour.
std::string painted(std::string_view text, Color color);

// Returns a line with its first word in that word's colour: error is red, warning yellow, next
// cyan, done green. Other lines come back as they are.
std::string paint_first_word(const std::string& line);

// Bytes of text that wait for a reader. What comes when they are full is dropped.
constexpr size_t kMostUnread = 256 * 1024;

// What becomes of text that cannot be written at once.
enum class Unread {
  kKeep,  // it goes out before later text; when text was dropped, a line says how many lines
  kDrop,  // what a terminal shows for a moment
  kWait,  // all of it is kept: who writes looks at has_unread() first
};

// Writes to standard error in one write where that is possible. It never waits for the reader of a
// terminal, pipe or socket. Errors are ignored, because there is no place left to report them.
void write_standard_error(std::string_view text, Unread unread = Unread::kKeep);

// The same to either standard stream, but nothing is dropped: who writes waits while has_unread(),
// which tries to write what is kept. Lines of both streams stay whole where each is another file.
void write_for_slow_reader(int fd, std::string_view text);
bool has_unread(int fd);

// Returns the errno with which a full disk has refused text for a standard stream of this process;
// 0 where nothing was lost in this way. A reader that went away is no failure.
int write_failure(int fd);

// Whether standard error would take some text now. Signal handlers may call it.
bool standard_error_takes_text();

// How long the end of a process waits for a slow reader, in seconds.
constexpr double kLastWords = 2;

// Waits until kept text has been taken, on standard output too, for at most so many seconds each.
// For the end of a process.
void flush_standard_error(double seconds);

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
// for whoever reads standard error. Control characters but newline and tab are shown as \xNN.
void log_line(Level level, const std::string& text);

// Writes a line to the file alone, whatever the level: text that a terminal shows in the live bar.
void log_to_file(const std::string& text);

// Tells the log what the live bar (report/console.h) has drawn last, so that log_line can clear it.
// Empty: there is no bar.
void set_live_line(const std::string& text);

// Arguments become one_line(): text of several lines is for log_line().
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kInfo, message_text<Args...>(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kWarning, message_text<Args...>(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kDebug, message_text<Args...>(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(Level::kError, message_text<Args...>(format, std::forward<Args>(args)...));
}

// Warns where nothing may be thrown, as in a destructor: a log file that cannot be written is
// passed over. Whoever writes there next says so.
void try_to_warn(const std::string& text);

// From now on this process keeps a copy of the lines that it logs, for a file that is not known yet
// or whose disk must not be waited for: at most 10,000 of Level::kInfo and up. set_log() ends this
// and forgets them.
void keep_log_lines();

// Returns the lines kept since the last call, each as a log file has it, with its time.
std::vector<std::string> take_kept_lines();

}  // namespace gantrain
