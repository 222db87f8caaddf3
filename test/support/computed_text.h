// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "core/forward_precision.h"

namespace gantrain {

// For what a failed check prints.
inline std::ostream& operator<<(std::ostream& out, const Computed& one) {
  return out << one.block << ": " << c10::toString(one.type) << " (" << one.why << ")";
}

}  // namespace gantrain
