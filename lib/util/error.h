// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "util/text.h"

namespace gantrain {

// Exit status of every command; `gantrain help exit` says what each means.
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
constexpr int code_of(Exit exit) { return static_cast<int>(exit); }

// An error that the user can fix. The message is one line: the thing (file, key, tensor), what is
// wrong with it, and what is allowed. It is caught only at the top of a process.
class UserError : public std::runtime_error {
 public:
  UserError(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
  Exit code() const { return code_; }

 private:
  Exit code_;
};

// Throws UserError with a formatted message, whose arguments are one_line() each.
template <class... Args>
[[noreturn]] void fail(Exit code, fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(code, message_text<Args...>(format, std::forward<Args>(args)...));
}

// Returns strerror(errno) for messages. Call it before anything else can change errno.
std::string errno_text();

// Whether the system has refused to start a thread, which std::thread throws, and what to say then.
bool lacks_threads(const std::system_error& e);
inline constexpr const char* kNoMoreThreads =
    "no more threads can be started: raise ulimit -u, or the container's limit of processes "
    "(pids.max), or give fewer --threads and data.workers";

// What the text of an exception of c10d, NCCL, gloo, the TCP store or CUDA says about a failure
// between ranks. Such texts stand in test/util/failure_text_test.cpp.

// The lines that tell a person what happened, at least one and the most telling one first: without
// backtraces and CUDA's advice; NCCL's last error before what NCCL calls it.
std::vector<std::string> telling_lines(std::string_view text);

// The same in one line: the most telling line, and in brackets what NCCL calls the error.
std::string cause_line(std::string_view text);

// True if the text says that another rank is gone, or a store no longer answers.
bool tells_of_lost_peer(std::string_view text);

// True if the text says that this rank waited for another one until its time was over.
bool tells_of_vain_wait(std::string_view text);

// True if the text comes from NCCL or from c10d's thread that watches over it, which throws what it
// finds, so that the process dies of SIGABRT.
bool tells_of_nccl(std::string_view text);

// What is short of memory, as LibTorch's allocators, CUDA, cuBLAS, cuDNN, NCCL and the C++ library
// put it.
enum class MemoryLack { kNone, kOfHost, kOfDevice };
MemoryLack memory_lack(std::string_view text);
bool tells_of_lacking_memory(const std::exception& failure);

}  // namespace gantrain
