// SPDX-License-Identifier: Apache-2.0
#include "util/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr std::array<std::pair<std::string_view, Color>, 4> kWords = {{
    {"error", Color::kRed},
    {"warning", Color::kYellow},
    {"next", Color::kCyan},
    {"done", Color::kGreen},
}};

// How bytes reach a standard stream without waiting.
enum class Way {
  kFile,    // a regular file takes everything
  kOwn,     // through an open file description of our own, which does not block: O_NONBLOCK on the
            // inherited one would hold for the shell and for every other process that shares it
  kSocket,  // as kOwn, by a flag of each call
  kPolled,  // a terminal that may not be opened again: a few bytes whenever it is ready
};

bool takes_text(int fd) {
  pollfd polled{fd, POLLOUT, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLOUT) != 0;
}

// Standard output or standard error.
class StandardStream {
 public:
  explicit StandardStream(int fd) : fd_(fd) {}

  void write(std::string_view text, Unread unread) {
    const std::lock_guard lock(mutex_);
    look();
    write_kept();
    const size_t done = kept_.empty() ? put(text) : 0;
    if (done < text.size()) keep(text.substr(done), unread);
  }

  bool has_unread() {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) write_kept();
    return !kept_.empty();
  }

  int failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void flush(double seconds) {
    const double end = monotonic_seconds() + seconds;
    const std::lock_guard lock(mutex_);
    if (kept_.empty()) return;
    look();
    while (true) {
      write_kept();
      const double left = end - monotonic_seconds();
      if (kept_.empty() || left <= 0) return;
      pollfd polled{fd_, POLLOUT, 0};
      ::poll(&polled, 1, static_cast<int>(std::min(left, 0.05) * 1e3) + 1);
    }
  }

 private:
  // The stream may be another one than before, and this may be a child that was forked.
  void look() {
    struct stat now {};
    if (::fstat(fd_, &now) != 0) now = {};
    const pid_t process = ::getpid();
    if (process != process_) {
      kept_.clear();
      dropped_lines_ = 0;
      failure_ = 0;
    }
    if (process == process_ && now.st_dev == device_ && now.st_ino == inode_) return;
    process_ = process;
    device_ = now.st_dev;
    inode_ = now.st_ino;
    if (own_ >= 0) ::close(own_);
    own_ = -1;
    if (S_ISSOCK(now.st_mode)) {
      way_ = Way::kSocket;
    } else if (S_ISFIFO(now.st_mode) || S_ISCHR(now.st_mode)) {
      const std::string path = fmt::format("/proc/self/fd/{}", fd_);
      own_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
      way_ = own_ >= 0 ? Way::kOwn : Way::kPolled;
    } else {
      way_ = Way::kFile;
    }
  }

  ssize_t put_some(std::string_view text) const {
    constexpr size_t kFew = 64;
    switch (way_) {
      case Way::kOwn:
        return ::write(own_, text.data(), text.size());
      case Way::kSocket:
        return ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      case Way::kPolled:
        if (takes_text(fd_)) return ::write(fd_, text.data(), std::min(text.size(), kFew));
        errno = EAGAIN;
        return -1;
      case Way::kFile:
        break;
    }
    return ::write(fd_, text.data(), text.size());
  }

  // Writes as much as is taken now, and returns how much. After an error there is no reader at all,
  // or no room: everything counts as written.
  size_t put(std::string_view text) {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = put_some(text.substr(done));
      if (size > 0) {
        done += static_cast<size_t>(size);
      } else if (size == 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
        return done;
      } else if (errno != EINTR) {
        const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
        if (full || (errno == EIO && way_ == Way::kFile)) failure_ = errno;
        return text.size();
      }
    }
    return done;
  }

  void write_kept() {
    if (kept_.empty()) return;
    kept_.erase(0, put(kept_));
    if (!kept_.empty() || dropped_lines_ == 0) return;
    kept_ = fmt::format("({} lines were not shown: nobody read them)\n", dropped_lines_);
    dropped_lines_ = 0;
    kept_.erase(0, put(kept_));
  }

  void keep(std::string_view text, Unread unread) {
    if (unread == Unread::kDrop) return;
    const bool fits = dropped_lines_ == 0 && kept_.size() + text.size() <= kMostUnread;
    if (fits || unread == Unread::kWait) {
      kept_ += text;
    } else {
      dropped_lines_ += std::ranges::count(text, '\n');
    }
  }

  const int fd_;
  std::mutex mutex_;
  pid_t process_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  Way way_ = Way::kFile;
  int own_ = -1;
  std::string kept_;
  int64_t dropped_lines_ = 0;
  int failure_ = 0;
};

StandardStream& standard_stream(int fd) {
  // They outlive every thread that may write at exit.
  static auto* output = new StandardStream(STDOUT_FILENO);
  static auto* error = new StandardStream(STDERR_FILENO);
  return fd == STDOUT_FILENO ? *output : *error;
}

struct State {
  std::mutex mutex;
  LogSettings settings{.console = environment_variable(kQuietVariable).empty() ? Level::kInfo
                                                                               : Level::kWarning};
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
  if (level == Level::kError) return "error   ";
  return level == Level::kWarning ? "warning " : "";
}

}  // namespace

bool is_live_terminal() {
  const std::string kind = environment_variable("TERM");
  return !kind.empty() && kind != "dumb" && ::isatty(STDERR_FILENO) == 1;
}

bool shows_colors() {
  const std::string asked = environment_variable(kColorVariable);
  if (asked == "always") return true;
  return asked != "never" && environment_variable("NO_COLOR").empty() && is_live_terminal();
}

std::string painted(std::string_view text, Color color) {
  return fmt::format("\033[{}m{}\033[0m", static_cast<int64_t>(color), text);
}

std::string paint_first_word(const std::string& line) {
  const std::string_view word = std::string_view(line).substr(0, line.find(' '));
  for (const auto& [known, color] : kWords) {
    if (word == known) return painted(word, color) + line.substr(word.size());
  }
  return line;
}

void write_standard_error(std::string_view text, Unread unread) {
  standard_stream(STDERR_FILENO).write(text, unread);
}

void write_for_slow_reader(int fd, std::string_view text) {
  standard_stream(fd).write(text, Unread::kWait);
}

bool has_unread(int fd) { return standard_stream(fd).has_unread(); }

int write_failure(int fd) { return standard_stream(fd).failure(); }

bool standard_error_takes_text() { return takes_text(STDERR_FILENO); }

void flush_standard_error(double seconds) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) standard_stream(fd).flush(seconds);
}

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

void log_line(Level level, const std::string& lines) {
  const std::string text = printable(lines, std::string::npos, "\n\t");
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

void try_to_warn(const std::string& text) {
  try {
    warn("{}", text);
  } catch (const UserError&) {
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
