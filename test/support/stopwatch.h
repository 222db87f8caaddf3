// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

#include "util/system.h"

namespace gantrain {

// Seconds since it was made, less those in which something on this machine waited for a processor,
// the disk or memory: on an idle machine a clock, on a busy one never more than the thing itself
// takes. Where the kernel does not tell (/proc/pressure), a clock.
class Stopwatch {
 public:
  double seconds() const { return monotonic_seconds() - start_ - (stalled() - stalled_); }

 private:
  static double stalled() {
    double microseconds = 0;
    for (const char* resource : {"cpu", "io", "memory"}) {
      std::ifstream file(std::string("/proc/pressure/") + resource);
      std::string line;  // some avg10=0.00 avg60=0.00 avg300=0.00 total=0
      std::getline(file, line);
      const size_t at = line.find("total=");
      if (at != std::string::npos) microseconds += std::stod(line.substr(at + 6));
    }
    return microseconds / 1e6;
  }

  double start_ = monotonic_seconds();
  double stalled_ = stalled();
};

}  // namespace gantrain
