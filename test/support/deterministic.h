// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "train/step/mixed_precision.h"

namespace gantrain {

// Algorithms with equal bits at every call, while it lives.
struct Deterministic {
  Deterministic() { choose_algorithms(true); }
  ~Deterministic() { choose_algorithms(false); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

}  // namespace gantrain
