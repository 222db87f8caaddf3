// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "report/console.h"

namespace gantrain {

// Shows how far work on many pictures, or other things, has come: on a terminal one line that is
// redrawn, elsewhere a whole line each minute.
class WorkProgress {
 public:
  // `what` begins the line: "packing". `unit` is what is counted.
  explicit WorkProgress(std::string what, std::string unit = "pictures");
  ~WorkProgress();  // clears the line
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  // `done` of `all` are finished. It may be called as often as one likes.
  void show(int64_t done, int64_t all);

 private:
  std::string line(int64_t done, int64_t all, double seconds) const;

  std::string what_, unit_;
  Terminal terminal_ = detect_terminal();
  double start_;        // monotonic seconds
  double shown_at_;     // monotonic seconds
  int64_t first_ = -1;  // done before the first call: by an earlier command
};

}  // namespace gantrain
