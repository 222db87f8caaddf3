// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/unique_fd.h"

namespace gantrain {

// Before a message of the launcher: clears the live bar that rank 0 may have drawn on the terminal.
void clear_live_bar();

// What ranks other than 0 print, on the launcher's standard error: whole lines, each with the
// rank in front, longer ones cut every 64 KiB. Of a line that was redrawn with \r the last is kept.
class Output {
 public:
  static constexpr size_t kLongestLine = 64 * 1024;

  // Takes the read end of a pipe that the rank writes to.
  void add(int64_t rank, UniqueFd pipe);

  // Appends what is to be polled for reading.
  void watch(std::vector<pollfd>& polled) const;

  // Prints the whole lines that have come; never waits.
  void relay();

  // relay(), then what is left of unfinished lines. Writers that still exist are not waited for.
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
