// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

namespace gantrain {

// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// Both ends are closed at exec.
struct Pipe {
  Descriptor read;
  Descriptor write;
};
Pipe make_pipe();

// Reads never wait from now on.
void set_nonblocking(int fd);

// The whole text, or as much as the other side takes before it is gone.
void write_all(int fd, std::string_view text);

}  // namespace gantrain
