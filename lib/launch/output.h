// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/unique_fd.h"

namespace gantrain {

// Clears the live bar that rank 0 may have drawn on the terminal. The launcher calls this before it
// writes a message.
void clear_live_bar();

// Prints what the ranks other than 0 write, on the launcher's standard error. Only whole lines are
// printed, each with its rank in front; a line of more than 64 KiB is cut into pieces of that
// length. If a line was redrawn with \r, only what was drawn last is printed.
class Output {
 public:
  static constexpr size_t kLongestLine = 64 * 1024;

  // Takes over the read end of a pipe that the rank writes to.
  void add(int64_t rank, UniqueFd pipe);

  // Appends the descriptors that poll() has to watch for reading.
  void watch(std::vector<pollfd>& polled) const;

  // Prints the whole lines that have arrived. It never waits.
  void relay();

  // Prints everything that has arrived, unfinished lines too. It does not wait for processes that
  // could still write.
  void finish();

 private:
  struct Stream {
    int64_t rank;
    UniqueFd pipe;
    std::string pending;
  };
  static void read_available(Stream& stream);
  static void print_lines(Stream& stream, bool unfinished_too);

  std::vector<Stream> streams_;
};

}  // namespace gantrain
