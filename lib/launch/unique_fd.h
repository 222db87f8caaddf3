// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

namespace gantrain {

// A file descriptor that is closed with its owner.
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

// Both ends are closed at exec.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
Pipe make_pipe();

// Reads never wait from now on.
void set_nonblocking(int fd);

// The whole text, or as much as the other side takes before it is gone.
void write_all(int fd, std::string_view text);

}  // namespace gantrain
