// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "util/size.h"

namespace gantrain {

// A part of a picture, in whole pixels.
struct Part {
  int64_t left = 0;
  int64_t top = 0;
  Size size;

  bool operator==(const Part&) const = default;
};

// Returns the largest part of a picture of that size that has the proportions of `aspect`, in the
// picture's middle. A side that is no whole number is rounded, and where the middle lies between
// two pixels the part is the left or upper one.
Part central_part(const Size& picture, const Size& aspect);

}  // namespace gantrain
