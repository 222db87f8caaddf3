// SPDX-License-Identifier: Apache-2.0
#include "distributed/agreement.h"

#include <algorithm>

#include "core/torch.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr int64_t kMostBytes = 1023;

}  // namespace

void throw_first_objection(const std::string& objection, Group& group, c10::Device device) {
  const at::Tensor mine = torch::zeros({group.world(), 1}, at::kLong);
  mine[group.rank()][0] = objection.empty() ? 0 : 1;
  at::Tensor objects = mine.to(device);
  group.sum_(objects);
  const at::Tensor first = objects.cpu().flatten().nonzero();
  if (first.numel() == 0) return;
  // One rank's text, as a sum over all ranks to which the others add nothing.
  at::Tensor text = torch::zeros({kMostBytes}, at::kInt);
  if (group.rank() == first[0][0].item<int64_t>()) {
    const auto count = std::min<int64_t>(kMostBytes, static_cast<int64_t>(objection.size()));
    for (int64_t i = 0; i < count; ++i)
      text.data_ptr<int32_t>()[i] = static_cast<uint8_t>(objection[static_cast<size_t>(i)]);
  }
  text = text.to(device);
  group.sum_(text);
  text = text.cpu();
  std::string told;
  for (int64_t i = 0; i < kMostBytes && text.data_ptr<int32_t>()[i] != 0; ++i)
    told += static_cast<char>(text.data_ptr<int32_t>()[i]);
  throw UserError(Exit::kEnvironment, told);
}

}  // namespace gantrain
