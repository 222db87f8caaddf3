// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gantrain {

// Exit status of every command; the table stands in README.md.
enum class Exit : int {
  kDone = 0,
  kInternal = 1,
  kUsage = 2,        // flags, configuration
  kInput = 3,        // data, models, states: missing, empty, broken
  kEnvironment = 4,  // no GPU, rendezvous, port
  kDiverged = 5,
  kRankDied = 6,
  kOutOfMemory = 7,
  kDisk = 8,  // full or not writable
  kStopped = 75,
  kInterrupted = 130,
};

// An error that the user can fix. The message is one line: the thing (file, key, tensor), what is
// wrong with it, and what is allowed. It is caught only at the top of a process.
class UserError : public std::runtime_error {
 public:
  UserError(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Throws UserError with a formatted message.
template <class... Args>
[[noreturn]] void fail(Exit code, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(code, fmt::format(format, std::forward<Args>(args)...));
}

// Returns strerror(errno) for messages. Call it before anything else can change errno.
std::string errno_text();

}  // namespace gantrain
