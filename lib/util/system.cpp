// SPDX-License-Identifier: Apache-2.0
#include "util/system.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

#include "util/error.h"
#include "util/text.h"

namespace gantrain {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

namespace {

std::string first_line(const std::string& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line;
}

// Of a folder of a control group. Version 2: "400000 100000" or "max 100000"; version 1 has a file
// for each number, and -1 where there is no limit.
double quota_in(const std::string& folder) {
  std::istringstream both(first_line(folder + "/cpu.max"));
  double quota = 0, period = 0;
  if (both >> quota >> period) return quota / period;
  std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota;
  std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

// A group has the limits of all that it lies in. In a container its path may be one that only the
// host sees; then the container's own group is at the top.
std::optional<int64_t> cores_of_quota(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = 0;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string mount =
        root + "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
    if (!controllers.empty() && !contains(split(controllers, ','), "cpu")) continue;
    for (std::string path = line.substr(second + 1);;) {
      const double cores = quota_in(mount + path);
      if (cores > 0) least = least > 0 ? std::min(least, cores) : cores;
      if (path.empty() || path == "/") break;
      path.resize(path.rfind('/'));
    }
  }
  if (least == 0) return std::nullopt;
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(least)), 1);
}

int64_t usable_cores() {
  const int64_t allowed = cores_of_quota().value_or(std::numeric_limits<int64_t>::max());
  // Machines with more than 1024 cores need a larger mask than cpu_set_t.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int64_t count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::clamp<int64_t>(count, 1, allowed);
  }
  return 1;
}

std::string proc_value(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon != std::string::npos && trim(line.substr(0, colon)) == key)
      return trim(line.substr(colon + 1));
  }
  return "";
}

int64_t proc_bytes(const std::string& file, const std::string& key) {
  const std::string value = proc_value(file, key);
  return 1024 * parse_int(value.substr(0, value.find(' '))).value_or(0);
}

std::string random_hex(size_t bytes) {
  std::string random(bytes, '\0');
  if (::getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    fail(Exit::kEnvironment, "the system gives no random numbers: {}", errno_text());
  std::string text;
  for (const char byte : random) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

bool is_below(pid_t pid) {
  while (pid > 1) {
    // A child, living or not, that nobody has waited for yet. This asks the kernel, not /proc.
    siginfo_t ignored{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &ignored, WEXITED | WNOHANG | WNOWAIT) == 0)
      return true;
    const std::string parent = proc_value(fmt::format("/proc/{}/status", pid), "PPid");
    pid = static_cast<pid_t>(parse_int(parent).value_or(0));
  }
  return false;
}

void signal_process(pid_t pid, int signal, const std::function<bool(pid_t)>& is_meant) {
  if (pid <= 1) return;  // kill(2) takes 0 and -1 for many processes
  const auto held = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  const bool gone = held < 0 && errno == ESRCH;
  if (!gone && is_meant(pid)) {
    const bool sent =
        held >= 0 &&
        (::syscall(SYS_pidfd_send_signal, held, signal, nullptr, 0) == 0 || errno == ESRCH);
    if (!sent) ::kill(pid, signal);
  }
  if (held >= 0) ::close(held);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string timestamp(double when) {
  const std::time_t seconds = static_cast<std::time_t>(when);
  std::tm local{};
  localtime_r(&seconds, &local);
  char buffer[32];
  std::strftime(buffer, sizeof(buffer), "%Y-%m-%d %H:%M:%S", &local);
  return buffer;
}

std::optional<double> parse_duration(std::string_view text) {
  if (const auto plain = parse_double(text)) return *plain >= 0 ? plain : std::nullopt;
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && (std::isdigit(text[digits]) != 0 || text[digits] == '.'))
      ++digits;
    if (digits == 0 || digits == text.size()) return std::nullopt;
    const auto value = parse_double(text.substr(0, digits));
    if (!value) return std::nullopt;
    const size_t unit = std::string_view("smhd").find(text[digits]);
    if (unit == std::string_view::npos) return std::nullopt;
    total += *value * std::array{1, 60, 3600, 86400}[unit];
    text.remove_prefix(digits + 1);
  }
  return total;
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

}  // namespace gantrain
