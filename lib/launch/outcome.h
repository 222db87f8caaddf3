// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace gantrain {

// How an attempt ended.
struct Outcome {
  int code = 0;                 // exit code
  std::string error = {};       // the text to print last; empty if nothing failed
  bool restartable = false;     // starting the ranks again may help
  bool resumable = false;       // the resume hint is to be printed under the error
  bool killed_at_stop = false;  // a stop was asked for, and some rank had to be killed
  // What two failures have in common that are the same one, whichever rank had it and whatever its
  // pid: a signal or the rank's message. "" if it says nothing about where the training was.
  std::string cause = {};
  int64_t iteration = 0;  // at which the rank that failed was
};

}  // namespace gantrain
