// SPDX-License-Identifier: Apache-2.0
#include "image/central_part.h"

#include <algorithm>

namespace gantrain {

namespace {

// length * factor, rounded, from 1 to `most`.
int64_t in_proportion(int64_t length, double factor, int64_t most) {
  const auto exact = static_cast<double>(length) * factor;
  return std::clamp(static_cast<int64_t>(exact + 0.5), int64_t{1}, most);
}

}  // namespace

Part central_part(const Size& picture, const Size& aspect) {
  const double ratio = static_cast<double>(aspect.width) / static_cast<double>(aspect.height);
  Part part{0, 0, picture};
  if (picture.width * aspect.height >= picture.height * aspect.width) {
    part.size.width = in_proportion(picture.height, ratio, picture.width);
  } else {
    part.size.height = in_proportion(picture.width, 1 / ratio, picture.height);
  }
  part.left = (picture.width - part.size.width) / 2;
  part.top = (picture.height - part.size.height) / 2;
  return part;
}

}  // namespace gantrain
