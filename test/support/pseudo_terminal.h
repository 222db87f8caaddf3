// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "support/catch.h"

namespace gantrain {

// A terminal of 80 columns that is standard error for as long as this lives.
class PseudoTerminal {
 public:
  PseudoTerminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(master_ >= 0);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    REQUIRE(slave_ >= 0);
    resize(80);
    before_ = ::dup(STDERR_FILENO);
    ::dup2(slave_, STDERR_FILENO);
  }
  ~PseudoTerminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(slave_);
    ::close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  void resize(unsigned short columns) const {
    const winsize size{24, columns, 0, 0};
    REQUIRE(::ioctl(slave_, TIOCSWINSZ, &size) == 0);
  }

  // What was written since the last call.
  std::string take() const {
    std::string text;
    pollfd ready{master_, POLLIN, 0};
    while (::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0) {
      char some[4096];
      const ssize_t size = ::read(master_, some, sizeof(some));
      if (size <= 0) break;
      text.append(some, static_cast<size_t>(size));
    }
    return text;
  }

 private:
  int master_ = -1;
  int slave_ = -1;
  int before_ = -1;
};

}  // namespace gantrain
