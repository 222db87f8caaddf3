// SPDX-License-Identifier: Apache-2.0
#include "core/running_statistics.h"

#include "core/torch.h"

namespace gantrain {

namespace {

RunningStatistics*& innermost() {
  thread_local RunningStatistics* scope = nullptr;
  return scope;
}

}  // namespace

at::Tensor& RunningStatistics::next(const at::Tensor& buffer) {
  for (Moved& moved : moved_) {
    if (moved.buffer.is_same(buffer)) return moved.next;
  }
  const torch::NoGradGuard no_grad;
  moved_.push_back({buffer, buffer.clone()});
  return moved_.back().next;
}

void RunningStatistics::add(const RunningStatistics& other) {
  for (const Moved& moved : other.moved_) {
    for (const Moved& own : moved_) TORCH_CHECK(!own.buffer.is_same(moved.buffer));
    moved_.push_back(moved);
  }
}

void RunningStatistics::apply() const {
  const torch::NoGradGuard no_grad;
  for (const Moved& moved : moved_) {
    at::Tensor buffer = moved.buffer;
    buffer.copy_(moved.next);
  }
}

RunningStatisticsScope::RunningStatisticsScope(RunningStatistics& into) : outer_(innermost()) {
  innermost() = &into;
}

RunningStatisticsScope::~RunningStatisticsScope() { innermost() = outer_; }

RunningStatistics* noted_running_statistics() { return innermost(); }

}  // namespace gantrain
