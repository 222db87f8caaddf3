// SPDX-License-Identifier: Apache-2.0
#include "train/shared.h"

#include <torch/torch.h>

namespace gantrain {

namespace {
constexpr int64_t kRequestsEveryOnGpu = 16;
}

SharedStatistics::SharedStatistics(const std::vector<PlayerState>& players,
                                   std::shared_ptr<Group> group,
                                   BufferSync mode)
    : group_(std::move(group)), mode_(mode) {
  for (const PlayerState& p : players) {
    device_ = p.parameters.front().second.device();
    dtype_ = p.parameters.front().second.scalar_type();
    for (const at::Tensor& buffer : p.player->network->buffers()) {
      if (buffer.is_floating_point() && mode_ != BufferSync::kOff) buffers_.push_back(buffer);
    }
  }
}

Requests SharedStatistics::reduce(const Requests& mine, int64_t iteration) {
  if (group_->world() == 1) return mine;
  const torch::NoGradGuard no_grad;
  const auto like = at::TensorOptions().device(device_).dtype(dtype_);
  // rank0 is a mean in which the others weigh nothing: still one all-reduce.
  const double world = static_cast<double>(group_->world());
  const double weight =
      mode_ == BufferSync::kRank0 ? (group_->rank() == 0 ? 1.0 : 0.0) : 1.0 / world;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& buffer : buffers_) flat.push_back(buffer.reshape(-1) * weight);
  flat.push_back(torch::tensor({mine.stop ? 1.0 : 0.0, mine.save ? 1.0 : 0.0}, like));
  at::Tensor all = torch::cat(flat);
  group_->sum_(all);
  int64_t at = 0;
  for (at::Tensor& buffer : buffers_) {
    buffer.copy_(all.narrow(0, at, buffer.numel()).view(buffer.sizes()));
    at += buffer.numel();
  }
  if (device_.is_cuda() && iteration % kRequestsEveryOnGpu != 0) return {};
  const at::Tensor asked = all.narrow(0, at, 2).cpu();
  return {asked[0].item<double>() > 0, asked[1].item<double>() > 0};
}

}  // namespace gantrain
