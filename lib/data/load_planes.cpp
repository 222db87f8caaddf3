// SPDX-License-Identifier: Apache-2.0
#include "data/load_planes.h"

#include <ATen/ops/empty.h>

#include "core/parallel.h"
#include "image/planes.h"

namespace gantrain {

at::Tensor load_planes(const Dataset& dataset, const std::vector<WantedPicture>& wanted) {
  TORCH_CHECK(!wanted.empty(), "load_planes: no pictures");
  const auto count = static_cast<int64_t>(wanted.size());
  LoadBuffers buffers;
  const ImageView first = dataset.view(wanted[0].index, buffers);
  at::Tensor planes = at::empty({count, first.channels, first.height, first.width}, at::kByte);
  auto* out = planes.mutable_data_ptr<uint8_t>();
  const int64_t bytes = first.channels * first.height * first.width;
  parallel_for(0, count, 1, [&](int64_t from, int64_t to) {
    LoadBuffers own;
    for (int64_t i = from; i < to; ++i) {
      const WantedPicture& one = wanted[static_cast<size_t>(i)];
      copy_planes(dataset.view(one.index, own), one.flipped, out + i * bytes);
    }
  });
  return planes;
}

}  // namespace gantrain
