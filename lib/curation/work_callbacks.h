// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "data/dataset.h"

namespace gantrain {

// How work on all pictures of a data set talks with what surrounds it.
struct WorkCallbacks {
  StopCheck stop = {};
  // Called after each picture, good or bad.
  std::function<void(int64_t done, int64_t all)> progress = [](int64_t, int64_t) {};
};

}  // namespace gantrain
