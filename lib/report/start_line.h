// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// What a run does before its first iteration, in one line on a terminal, which Console then takes
// over: " starting 3s  opening data". Elsewhere it shows nothing.
class StartLine {
 public:
  // `began` is monotonic_seconds() when the command began. A line that is not `wanted` (-q, ranks
  // other than 0) shows nothing.
  StartLine(double began, bool wanted);
  ~StartLine();  // clears the line, unless end() was called
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;

  void show(const std::string& phase);
  // The first iteration is done: the line is Console's from now on.
  void end() { live_ = false; }

 private:
  double began_;
  bool live_;
};

}  // namespace gantrain
