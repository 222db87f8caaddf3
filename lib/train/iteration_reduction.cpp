// SPDX-License-Identifier: Apache-2.0
#include "train/iteration_reduction.h"

#include "core/device_reads.h"
#include "core/torch.h"

namespace gantrain {

IterationReduction::IterationReduction(std::vector<at::Tensor> running,
                                       std::vector<AllReducedSum> sums,
                                       const at::TensorOptions& like,
                                       std::shared_ptr<Group> group,
                                       BufferSync mode)
    : group_(std::move(group)),
      mode_(mode),
      like_(like),
      running_(std::move(running)),
      sums_(std::move(sums)),
      requests_(like, group_->rank()) {
  begin();
}

void IterationReduction::begin() {
  before_.clear();
  for (const at::Tensor& buffer : running_) before_.push_back(buffer.clone());
}

// Everything is sent in one tensor; the ranks' requests are its last numbers.
at::Tensor IterationReduction::add_up(std::vector<PhaseSums>& phases, const RankRequests& mine) {
  // With rank0 the mean gives all other ranks weight 0, so that it is still one all-reduce.
  const double world = static_cast<double>(group_->world());
  const double weight =
      mode_ == BufferSync::kRank0 ? (group_->rank() == 0 ? 1.0 : 0.0) : 1.0 / world;
  std::vector<at::Tensor> flat;
  const bool averages = mode_ != BufferSync::kOff;
  if (averages) {
    for (const at::Tensor& buffer : running_) flat.push_back(buffer.reshape(-1) * weight);
  }
  for (const PhaseSums& phase : phases) {
    for (const auto& [name, sum] : phase.sums) flat.push_back(sum.reshape(-1).to(like_.dtype()));
  }
  flat.push_back(requests_.packed(mine));
  at::Tensor all = torch::cat(flat);
  group_->sum_(all);
  int64_t at = 0;
  const auto take = [&](at::Tensor& into) {
    into.copy_(all.narrow(0, at, into.numel()).view(into.sizes()));
    at += into.numel();
  };
  if (averages) {
    for (at::Tensor& buffer : running_) take(buffer);
  }
  for (PhaseSums& phase : phases) {
    for (auto& [name, sum] : phase.sums) {  // not in place: it may be a statistic too
      const int64_t count = sum.numel();
      sum = all.narrow(0, at, count).view(sum.sizes());
      at += count;
    }
  }
  return all.narrow(0, at, RequestExchange::kNumbers);
}

void IterationReduction::undo_overflows() {
  for (size_t i = 0; i < before_.size(); ++i) {
    running_[i].copy_(at::where(running_[i].isfinite(), running_[i], before_[i]));
    before_[i].copy_(running_[i]);
  }
}

void IterationReduction::hand_back(const std::vector<PhaseSums>& phases) {
  for (const AllReducedSum& all_reduced : sums_) {
    std::vector<at::Tensor> sums;
    for (const PhaseSums& phase : phases) {
      for (const auto& [name, sum] : phase.sums) {
        if (name == all_reduced.name) sums.push_back(sum);
      }
    }
    if (sums.empty()) continue;
    std::vector<at::Tensor> verdicts;
    for (const at::Tensor& sum : sums) verdicts.push_back(sum.isfinite().all());
    const at::Tensor finite = at::stack(verdicts).all();
    if (reads_are_free(finite.device())) {
      if (read_free(finite) == 0) continue;
      for (const at::Tensor& sum : sums) all_reduced.on_reduced(sum);
      continue;
    }
    std::vector<at::Tensor> before;
    for (const at::Tensor& moved : all_reduced.moves) before.push_back(moved.clone());
    for (const at::Tensor& sum : sums) all_reduced.on_reduced(sum);
    for (size_t i = 0; i < before.size(); ++i) {
      at::Tensor moved = all_reduced.moves[i];
      moved.copy_(at::where(finite, moved, before[i]));
    }
  }
}

RankRequests IterationReduction::run(std::vector<PhaseSums>& phases,
                                     const RankRequests& mine,
                                     int64_t iteration) {
  const torch::NoGradGuard no_grad;
  const bool alone = group_->world() == 1;
  const at::Tensor asked = alone ? at::Tensor() : add_up(phases, mine);
  undo_overflows();
  hand_back(phases);
  return alone ? mine : requests_.heard(asked, iteration);
}

}  // namespace gantrain
