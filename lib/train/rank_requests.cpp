// SPDX-License-Identifier: Apache-2.0
#include "train/rank_requests.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

#include "core/device_reads.h"
#include "core/torch.h"
#include "util/time.h"

namespace gantrain {

namespace {
constexpr double kSecondsBetweenLooks = 1;
constexpr int64_t kMostIterations = 1000;
}  // namespace

RequestExchange::RequestExchange(const at::TensorOptions& like, int64_t rank)
    : like_(like), rank_(rank), last_(monotonic_seconds()) {}

at::Tensor RequestExchange::packed(const RankRequests& mine) {
  const double now = monotonic_seconds();
  seconds_ = now - last_;
  last_ = now;
  at::Tensor numbers = torch::empty({kNumbers}, like_);
  numbers.select(0, 0).fill_(mine.stop ? 1.0 : 0.0);
  numbers.select(0, 1).fill_(mine.save ? 1.0 : 0.0);
  numbers.select(0, 2).fill_(rank_ == 0 ? seconds_ : 0.0);
  return numbers;
}

RankRequests RequestExchange::heard(const at::Tensor& sum, int64_t iteration) {
  if (reads_are_free(sum.device())) return read(sum);
  if (iteration < due_) return {};
  RankRequests requests;
  if (aside_.defined()) {
    if (copied_) copied_->synchronize();  // it was recorded a second ago
    requests = read(aside_);
  }
  due_ = iteration + every_;
  const bool cuda = sum.is_cuda();
  aside_ = torch::empty({kNumbers}, like_.device(at::kCPU).pinned_memory(cuda));
  aside_.copy_(sum, /*non_blocking=*/true);
  if (cuda) {
    const c10::impl::VirtualGuardImpl device(at::kCUDA);
    copied_.emplace(at::kCUDA);
    copied_->record(device.getStream(sum.device()));
  }
  return requests;
}

RankRequests RequestExchange::read(const at::Tensor& on_host) {
  const double seconds = read_free(on_host[2]);
  if (seconds > 0) {
    every_ = std::clamp<int64_t>(
        std::llround(kSecondsBetweenLooks / seconds), int64_t{1}, kMostIterations);
  }
  return {read_free(on_host[0]) > 0, read_free(on_host[1]) > 0};
}

}  // namespace gantrain
