// SPDX-License-Identifier: Apache-2.0
#include "train/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/proc.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

// What outlives a killed launcher has the lock while it writes down the reason, which is a moment.
constexpr double kGuardSeconds = 1;
constexpr double kEndingSeconds = 60;
// /proc/locks may lack a line while other locks come and go, so one look is not enough.
constexpr int kLooks = 10;

// The process that locked the file, as /proc/locks has it: "7: FLOCK ADVISORY WRITE 3121 fe:00:24 0
// EOF". Nothing where the kernel does not tell: it works on another machine, or in another
// namespace.
std::optional<int64_t> holder_of(int file) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return std::nullopt;
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", major(about.st_dev), minor(about.st_dev), about.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, type, process, place;
    words >> number >> kind >> mode >> type >> process >> place;
    if (kind == "FLOCK" && place == wanted) return parse_int(process);
  }
  return std::nullopt;
}

bool is_killed(const std::string& status_file) {
  const std::string state = proc_value(status_file, "State");
  if (starts_with(state, "Z") || starts_with(state, "X")) return true;
  for (const char* pending : {"SigPnd", "ShdPnd"}) {
    const std::string mask = proc_value(status_file, pending);
    if (std::strtoull(mask.c_str(), nullptr, 16) >> (SIGKILL - 1) & 1) return true;
  }
  return false;
}

// Whether the process is gone or on its way, so that what it holds will be free.
bool is_ending(int64_t process) {
  std::error_code error;
  const fs::path folder = "/proc/" + std::to_string(process);
  if (!fs::exists(folder, error)) return true;
  for (fs::directory_iterator thread(folder / "task", error), end; !error && thread != end;
       thread.increment(error)) {
    if (is_killed((thread->path() / "status").string())) return true;
  }
  return false;
}

}  // namespace

int lock_run_folder(const fs::path& folder) {
  make_writable_folder(folder);
  const std::string path = folder / ".lock";
  const int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
  if (lock < 0) fail(Exit::kDisk, "{}: {}", path, errno_text());
  const double begun = monotonic_seconds();
  bool locked = false, said = false;
  int alive = 0;  // looks in a row that found no ending process
  while (!(locked = ::flock(lock, LOCK_EX | LOCK_NB) == 0) && errno == EWOULDBLOCK) {
    const double waited = monotonic_seconds() - begun;
    if (waited >= kGuardSeconds) {
      const std::optional<int64_t> holder = holder_of(lock);
      errno = EWOULDBLOCK;
      const bool ending = holder && is_ending(*holder);
      alive = ending ? 0 : alive + 1;
      if (waited >= kEndingSeconds || alive >= kLooks) break;
      if (ending && !said)
        info("waiting {}: what is left of its last run, pid {}, is ending",
             folder.string(),
             *holder);
      said = said || ending;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (locked) return lock;
  if (errno == EWOULDBLOCK) {
    ::close(lock);
    fail(Exit::kUsage, "{}: another run is at work there; give another --run-dir", folder.string());
  }
  warn("{}: {}: two runs in this folder would not notice each other", path, errno_text());
  return lock;
}

}  // namespace gantrain
