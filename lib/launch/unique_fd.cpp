// SPDX-License-Identifier: Apache-2.0
#include "launch/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "util/error.h"

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
