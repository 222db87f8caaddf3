// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_text.h"

#include <algorithm>

#include "core/torch.h"

namespace gantrain {

std::string shared_text(const std::string& mine, Group& group, c10::Device device) {
  at::Tensor length = torch::full({1}, static_cast<int64_t>(mine.size()), at::kLong).to(device);
  group.broadcast_(length);
  const auto size = length.item<int64_t>();
  at::Tensor text = torch::zeros({size}, at::kByte);
  if (group.rank() == 0) std::copy(mine.begin(), mine.end(), text.data_ptr<uint8_t>());
  if (size == 0) return "";
  text = text.to(device);
  group.broadcast_(text);
  text = text.cpu();
  const uint8_t* bytes = text.data_ptr<uint8_t>();
  return {bytes, bytes + size};
}

}  // namespace gantrain
