// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_kernels/launch.h"

namespace gantrain::cuda_kernels {

// Divides whole numbers up to `most` by one that is known at launch: by a multiplication where they
// are below 2^31.
struct AnyDivider {
  int64_t divisor = 1;
  bool small = true;
  Divider fast;

  AnyDivider() = default;
  AnyDivider(int64_t by, int64_t most) : divisor(by), small((most | by) < int64_t{1} << 31) {
    if (small) fast = Divider(by);
  }
  GANTRAIN_BOTH int64_t quotient(int64_t n) const {
    return small ? static_cast<int64_t>(fast.quotient(static_cast<uint32_t>(n))) : n / divisor;
  }
};

}  // namespace gantrain::cuda_kernels
