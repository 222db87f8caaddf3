// SPDX-License-Identifier: Apache-2.0
#include "train/micro_batch.h"

#include <algorithm>

namespace gantrain {

MemoryLine line_through(const MeasuredPeak& few, const MeasuredPeak& many) {
  const auto rise = static_cast<double>(std::max<int64_t>(many.bytes - few.bytes, 0));
  const double each = rise / static_cast<double>(many.images - few.images);
  const auto top = static_cast<double>(std::max(few.bytes, many.bytes));
  return {top - each * static_cast<double>(many.images), each};
}

int64_t largest_micro_batch(const RankShare& share, const MemoryLine& line, double budget) {
  int64_t any = 0;
  for (int64_t images = share.images; images >= 1; --images) {
    if (share.images % images != 0 || line.at(images) > budget) continue;
    if (images % share.group == 0) return images;
    any = std::max(any, images);
  }
  return any;
}

int64_t smaller_micro_batch(int64_t micro_batch) {
  for (int64_t parts = 2; parts <= micro_batch; ++parts) {
    if (micro_batch % parts == 0) return micro_batch / parts;
  }
  return 0;
}

}  // namespace gantrain
