// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gantrain {

// Owns a file descriptor and closes it when it is destroyed.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// A pipe. Both ends are closed when the process executes another program.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Pipe make_pipe();

// From now on no read from the descriptor waits.
void set_nonblocking(int fd);

// Appends what can be read: where reads wait, all of it; else what is there. It takes about `most`
// bytes at the most. Returns false at the end, or if the other side is gone.
bool read_from(int fd, std::string& text, size_t most);

// Waits until one of `polled` is ready or monotonic_seconds() is `until`; for ever if that is
// infinite.
void poll_until(std::vector<pollfd>& polled, double until);

// Waits until the descriptor is ready for `events`; false if the time is over before.
bool wait_for(int fd, short events, double until);

// Writes the whole text, or as much of it as the other side reads before it is gone. The descriptor
// is one that waits; for standard error there is write_standard_error().
void write_all(int fd, std::string_view text);

}  // namespace gantrain
