// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

#include "core/torch.h"
#include "train/step/mixed_precision.h"
#include "train/step/training_step.h"
#include "util/system.h"

namespace gantrain {

namespace {
constexpr double kSecondsBetweenLooks = 0.35;  // heard two looks later: within a second
constexpr int64_t kMostIterations = 1000;
// What a wish to regroup counts beside those for a save: more than all ranks together.
constexpr double kRegroup = 1 << 16;
// What a bit of rank 0's RankRequests::affordable counts beside wishes for a stop, likewise.
constexpr double kAffordable = 1 << 17;
}  // namespace

RequestExchange::RequestExchange(const at::TensorOptions& like, int64_t rank)
    : like_(like), rank_(rank), last_(monotonic_seconds()) {}

at::Tensor RequestExchange::packed(const RankRequests& mine) {
  const double now = monotonic_seconds();
  seconds_ = now - last_;
  last_ = now;
  at::Tensor numbers = torch::empty({kNumbers}, like_);
  const double affordable = rank_ == 0 ? static_cast<double>(mine.affordable) : 0.0;
  numbers.select(0, 0).fill_((mine.stop ? 1.0 : 0.0) + affordable * kAffordable);
  numbers.select(0, 1).fill_((mine.save ? 1.0 : 0.0) + (mine.regroup ? kRegroup : 0.0));
  numbers.select(0, 2).fill_(rank_ == 0 ? seconds_ : 0.0);
  return numbers;
}

RankRequests RequestExchange::heard(const at::Tensor& sum, int64_t iteration) {
  if (reads_are_free(sum.device())) return read(sum, iteration);
  if (iteration < due_) return known_;
  RankRequests requests = known_;
  if (pending_copy_.defined()) {
    if (copied_) copied_->synchronize();  // it was recorded a second ago
    requests = read(pending_copy_, pending_from_);
    // The sum that is copied below still asks for the save that this one grants.
    requests.save = requests.save && !save_granted_;
    save_granted_ = requests.save;
  }
  pending_from_ = iteration;
  due_ = iteration + every_;
  const bool cuda = sum.is_cuda();
  pending_copy_ = torch::empty({kNumbers}, like_.device(at::kCPU).pinned_memory(cuda));
  pending_copy_.copy_(sum, /*non_blocking=*/true);
  if (cuda) {
    const c10::impl::VirtualGuardImpl device(at::kCUDA);
    copied_.emplace(at::kCUDA);
    copied_->record(device.getStream(sum.device()));
  }
  return requests;
}

RankRequests RequestExchange::read(const at::Tensor& on_host, int64_t iteration) {
  const double seconds = read_free(on_host[2]);
  if (seconds > 0) {
    every_ = std::clamp<int64_t>(
        std::llround(kSecondsBetweenLooks / seconds), int64_t{1}, kMostIterations);
  }
  const double saves = read_free(on_host[1]);
  const double stops = read_free(on_host[0]);
  known_.affordable = static_cast<int64_t>(stops / kAffordable);
  known_.affordable_at = iteration;
  RankRequests requests = known_;
  requests.stop = std::fmod(stops, kAffordable) > 0;
  requests.save = std::fmod(saves, kRegroup) > 0;
  requests.regroup = saves >= kRegroup;
  return requests;
}

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
  group_->sum_(all, "statistics and requests");
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
    std::vector<at::Tensor> sums, flat;
    for (const PhaseSums& phase : phases) {
      for (const auto& [name, sum] : phase.sums) {
        if (name != all_reduced.name) continue;
        sums.push_back(sum);
        flat.push_back(sum.reshape(-1));
      }
    }
    if (sums.empty()) continue;
    const at::Tensor bad = not_finite(flat.size() == 1 ? flat.front() : at::cat(flat)).any();
    if (reads_are_free(bad.device())) {
      if (read_free(bad) != 0) continue;
      for (const at::Tensor& sum : sums) all_reduced.on_reduced(sum);
      continue;
    }
    std::vector<at::Tensor> before;
    for (const at::Tensor& moved : all_reduced.moves) before.push_back(moved.clone());
    for (const at::Tensor& sum : sums) all_reduced.on_reduced(sum);
    for (size_t i = 0; i < before.size(); ++i) {
      at::Tensor moved = all_reduced.moves[i];
      moved.copy_(at::where(bad, before[i], moved));
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
