// SPDX-License-Identifier: Apache-2.0
#include "util/standard_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>

#include "util/time.h"

namespace gantrain {

namespace {

// How bytes reach standard error without waiting.
enum class Way {
  kFile,    // a regular file takes everything
  kOwn,     // through an open file description of our own, which does not block: O_NONBLOCK on the
            // inherited one would hold for the shell and for every other process that shares it
  kSocket,  // as kOwn, by a flag of each call
  kPolled,  // a terminal that may not be opened again: a few bytes whenever it says that it is
            // ready
};

class StandardError {
 public:
  void write(std::string_view text, Unread unread) {
    const std::lock_guard lock(mutex_);
    look();
    write_kept();
    if (!kept_.empty()) {
      keep(text, unread);
      return;
    }
    const size_t done = put(text);
    if (done < text.size()) keep(text.substr(done), unread);
  }

  void flush(double seconds) {
    const double end = monotonic_seconds() + seconds;
    const std::lock_guard lock(mutex_);
    look();
    while (true) {
      write_kept();
      const double left = end - monotonic_seconds();
      if (kept_.empty() || left <= 0) return;
      pollfd polled{STDERR_FILENO, POLLOUT, 0};
      ::poll(&polled, 1, static_cast<int>(std::min(left, 0.05) * 1e3) + 1);
    }
  }

 private:
  // Standard error may be another one than before, and this may be a child that was forked.
  void look() {
    struct stat now {};
    if (::fstat(STDERR_FILENO, &now) != 0) now = {};
    const pid_t process = ::getpid();
    if (process != process_) {
      kept_.clear();
      dropped_lines_ = 0;
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
      own_ = ::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
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
        return ::send(STDERR_FILENO, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      case Way::kPolled:
        if (standard_error_takes_text())
          return ::write(STDERR_FILENO, text.data(), std::min(text.size(), kFew));
        errno = EAGAIN;
        return -1;
      case Way::kFile:
        break;
    }
    return ::write(STDERR_FILENO, text.data(), text.size());
  }

  // Writes as much as is taken now, and returns how much. After an error there is no reader at all:
  // everything counts as written.
  size_t put(std::string_view text) const {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t size = put_some(text.substr(done));
      if (size > 0) {
        done += static_cast<size_t>(size);
      } else if (size == 0 || errno == EAGAIN || errno == EWOULDBLOCK) {
        return done;
      } else if (errno != EINTR) {
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
    if (dropped_lines_ == 0 && kept_.size() + text.size() <= kMostUnread) {
      kept_ += text;
    } else {
      dropped_lines_ += std::count(text.begin(), text.end(), '\n');
    }
  }

  std::mutex mutex_;
  pid_t process_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  Way way_ = Way::kFile;
  int own_ = -1;
  std::string kept_;
  int64_t dropped_lines_ = 0;
};

StandardError& standard_error() {
  static StandardError* one = new StandardError;  // outlives every thread that may write at exit
  return *one;
}

}  // namespace

void write_standard_error(std::string_view text, Unread unread) {
  standard_error().write(text, unread);
}

bool standard_error_takes_text() {
  pollfd polled{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&polled, 1, 0) == 1 && (polled.revents & POLLOUT) != 0;
}

void flush_standard_error(double seconds) { standard_error().flush(seconds); }

}  // namespace gantrain
