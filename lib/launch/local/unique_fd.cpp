// SPDX-License-Identifier: Apache-2.0
#include "launch/local/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "util/error.h"
#include "util/time.h"

namespace gantrain {

void UniqueFd::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(Exit::kEnvironment, "cannot make a pipe: {}", errno_text());
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

bool read_from(int fd, std::string& text, size_t most) {
  char buffer[64 * 1024];
  for (size_t taken = 0; taken < most;) {
    const ssize_t size = ::read(fd, buffer, sizeof buffer);
    if (size > 0) {
      text.append(buffer, static_cast<size_t>(size));
      taken += static_cast<size_t>(size);
    } else if (size == 0 || errno != EINTR) {
      return size < 0 && errno == EAGAIN;
    }
  }
  return true;
}

void poll_until(std::vector<pollfd>& polled, double until) {
  // Rounded up: a poll() that returns early would be called again and again.
  const double left = std::ceil(std::max(until - monotonic_seconds(), 0.0) * 1e3);
  ::poll(polled.data(), polled.size(), std::isinf(left) ? -1 : static_cast<int>(left));
}

bool wait_for(int fd, short events, double until) {
  std::vector<pollfd> polled{{fd, events, 0}};
  do {
    poll_until(polled, until);
  } while (polled[0].revents == 0 && monotonic_seconds() < until);
  return polled[0].revents != 0;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(fd, text.data(), text.size());
    if (done >= 0) {
      text.remove_prefix(static_cast<size_t>(done));
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace gantrain
