// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// Standard error of a program that must go on working when nobody reads it: a frozen ssh session, a
// terminal stopped by Ctrl-S, a pager that waits.
namespace gantrain {

// Bytes of text that wait for a reader. What comes when they are full is dropped.
constexpr size_t kMostUnread = 256 * 1024;

// What becomes of text that cannot be written at once.
enum class Unread {
  kKeep,  // it goes out before later text; when text was dropped, a line says how many lines
  kDrop,  // what a terminal shows for a moment
};

// Writes to standard error in one write where that is possible. It never waits for the reader of a
// terminal, pipe or socket. Errors are ignored, because there is no place left to report them.
void write_standard_error(std::string_view text, Unread unread = Unread::kKeep);

// Whether standard error would take some text now. Signal handlers may call it.
bool standard_error_takes_text();

// How long the end of a process waits for a slow reader, in seconds.
constexpr double kLastWords = 2;

// Waits until kept text has been taken, at most so many seconds. For the end of a process.
void flush_standard_error(double seconds);

}  // namespace gantrain
