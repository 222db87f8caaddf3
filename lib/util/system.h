// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace gantrain {

// Returns the name of this machine, as `hostname` prints it.
std::string host_name();

// Returns the value of a variable of the environment; "" where there is none.
std::string environment_variable(const char* name);

// Returns the number of cores that this process may use: those of its affinity mask, and no more
// than its control groups allow at a time; at least 1.
int64_t usable_cores();

// Returns how many cores' time the control groups of this process allow, as in a container with a
// limit, rounded up; nothing where they set none. `root` is where /proc and /sys are looked for.
std::optional<int64_t> cores_of_quota(const std::string& root = "");

// Returns what follows "KEY:" in the first line with that key of a file such as /proc/meminfo,
// without the blanks around it; "" if there is none.
std::string proc_value(const std::string& file, const std::string& key);

// The same as a number of bytes: "8053064 kB" -> 8246337536. 0 if there is no such number.
int64_t proc_bytes(const std::string& file, const std::string& key);

// Returns so many bytes of the system's random source as twice as many hexadecimal digits.
std::string random_hex(size_t bytes);

// Returns whether a process is below this one: its child, its child's child and so on.
bool is_below(pid_t pid);

// Sends a signal to the process with that number if it is the one that is meant. A pidfd holds the
// process before is_meant() looks at it, so that another one that gets the number meanwhile is not
// hit. Where there can be no pidfd, kill(2) follows the look.
void signal_process(pid_t pid, int signal, const std::function<bool(pid_t)>& is_meant = is_below);

// Blocks all signals in this thread and returns what was blocked before.
inline sigset_t block_signals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

// Blocks all signals in this thread, and in the threads that it starts, until the end of the scope.
class BlockSignals {
 public:
  BlockSignals() : before_(block_signals()) {}
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t before_;
};

// Returns the seconds since an arbitrary start; the number never decreases.
double monotonic_seconds();
// The same in nanoseconds, on the clock CLOCK_MONOTONIC, which the processes of one machine share.
// A signal handler may call it.
int64_t monotonic_ns();
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
