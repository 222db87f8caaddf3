// SPDX-License-Identifier: Apache-2.0
#include "train/shared.h"

#include <torch/torch.h>

#include "util/text.h"

namespace gantrain {

namespace {
constexpr int64_t kRequestsEveryOnGpu = 16;
}

SharedStatistics::SharedStatistics(const std::vector<PlayerState>& players,
                                   std::vector<Shared*> sums,
                                   std::shared_ptr<Group> group,
                                   BufferSync mode)
    : group_(std::move(group)), mode_(mode), sums_(std::move(sums)) {
  for (const PlayerState& p : players) {
    device_ = p.parameters.front().second.device();
    dtype_ = p.parameters.front().second.scalar_type();
    for (const auto& item : p.player->network->named_buffers()) {
      if (ends_with(item.key(), "running_mean") || ends_with(item.key(), "running_var"))
        buffers_.push_back(item.value());
    }
  }
}

// Everything over the wire in one tensor; what ranks asked for is its last two numbers.
at::Tensor SharedStatistics::add_up(const RankRequests& mine) {
  const auto like = at::TensorOptions().device(device_).dtype(dtype_);
  // rank0 is a mean in which the others weigh nothing: still one all-reduce.
  const double world = static_cast<double>(group_->world());
  const double weight =
      mode_ == BufferSync::kRank0 ? (group_->rank() == 0 ? 1.0 : 0.0) : 1.0 / world;
  std::vector<at::Tensor> flat;
  const bool averages = mode_ != BufferSync::kOff;
  for (const at::Tensor& buffer : buffers_) {
    if (averages) flat.push_back(buffer.reshape(-1) * weight);
  }
  for (const Shared* shared : sums_) flat.push_back(shared->sum.reshape(-1).to(dtype_));
  flat.push_back(torch::tensor({mine.stop ? 1.0 : 0.0, mine.save ? 1.0 : 0.0}, like));
  at::Tensor all = torch::cat(flat);
  group_->sum_(all);
  int64_t at = 0;
  const auto take = [&](at::Tensor& into) {
    into.copy_(all.narrow(0, at, into.numel()).view(into.sizes()));
    at += into.numel();
  };
  for (at::Tensor& buffer : buffers_) {
    if (averages) take(buffer);
  }
  for (Shared* shared : sums_) take(shared->sum);
  return all.narrow(0, at, 2);
}

void SharedStatistics::begin() {
  before_.clear();
  for (const at::Tensor& buffer : buffers_) before_.push_back(buffer.clone());
}

void SharedStatistics::undo_overflows() {
  for (size_t i = 0; i < before_.size(); ++i) {
    buffers_[i].copy_(at::where(buffers_[i].isfinite(), buffers_[i], before_[i]));
    before_[i].copy_(buffers_[i]);
  }
}

void SharedStatistics::move_shared(int64_t iteration) {
  if (sums_.empty()) return;
  std::vector<at::Tensor> finite;
  for (const Shared* shared : sums_) finite.push_back(shared->sum.isfinite().all());
  const at::Tensor verdicts = torch::stack(finite).cpu();  // one wait for the device
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (verdicts[static_cast<int64_t>(i)].item<bool>()) sums_[i]->moved(iteration);
    sums_[i]->sum.zero_();
  }
}

RankRequests SharedStatistics::reduce(const RankRequests& mine, int64_t iteration) {
  const torch::NoGradGuard no_grad;
  const bool alone = group_->world() == 1;
  const at::Tensor asked = alone ? at::Tensor() : add_up(mine);
  undo_overflows();
  move_shared(iteration);
  if (alone) return mine;
  if (device_.is_cuda() && iteration % kRequestsEveryOnGpu != 0) return {};
  const at::Tensor host = asked.cpu();
  return {host[0].item<double>() > 0, host[1].item<double>() > 0};
}

}  // namespace gantrain
