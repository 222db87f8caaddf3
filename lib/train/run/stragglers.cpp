// SPDX-License-Identifier: Apache-2.0
#include "train/run/stragglers.h"

#include <algorithm>

#include "core/device.h"
#include "core/torch.h"
#include "train/plan/plan.h"
#include "util/log.h"
#include "util/sample.h"
#include "util/system.h"

namespace gantrain {

namespace {

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

size_t slowest_of(const std::vector<std::vector<double>>& ranks) {
  const auto slowest = std::ranges::max_element(ranks, {}, sum_of);
  return static_cast<size_t>(slowest - ranks.begin());
}

}  // namespace

RankTime time_of(const std::vector<std::vector<double>>& ranks, size_t rank) {
  const auto of_others = [&](const auto& value_of) {
    std::vector<double> values;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i != rank) values.push_back(value_of(ranks[i]));
    }
    return median(values);
  };
  RankTime time{.rank = static_cast<int64_t>(rank), .seconds = sum_of(ranks[rank])};
  time.others = of_others(sum_of);
  double most = -1;
  for (size_t part = 0; part < ranks[rank].size(); ++part) {
    const double lost =
        ranks[rank][part] - of_others([part](const auto& parts) { return parts[part]; });
    if (lost <= most) continue;
    most = lost;
    time.part = part;
  }
  return time;
}

Stragglers::Stragglers(std::shared_ptr<Group> group,
                       const std::vector<Phase>& phases,
                       int64_t images_seen)
    : group_(std::move(group)), begun_(images_seen) {
  for (const Phase& phase : phases) parts_.push_back(phase.name);
  parts_.insert(parts_.end(), {"data", "the rest"});
  seconds_.resize(parts_.size());
}

void Stragglers::add(const StepReport& report, double data, double total) {
  iterations_ += 1;
  double named = data;
  for (const PhaseReport& phase : report.phases) {
    const auto at = std::ranges::find(parts_, phase.phase->name);
    if (at == parts_.end()) continue;
    seconds_[static_cast<size_t>(at - parts_.begin())] += phase.computed;
    named += phase.computed + phase.spent.blocked;
  }
  seconds_[parts_.size() - 2] += data;
  seconds_.back() += total - named - report.reducing;
}

std::vector<std::vector<double>> Stragglers::seconds_of_ranks() {
  const auto parts = static_cast<int64_t>(parts_.size());
  at::Tensor all = torch::zeros({group_->world(), parts}, at::kDouble);
  all[group_->rank()] = torch::tensor(seconds_, at::kDouble) / static_cast<double>(iterations_);
  group_->sum_(all, "comparison of speeds");
  std::vector<std::vector<double>> ranks;
  for (int64_t rank = 0; rank < group_->world(); ++rank) {
    const double* row = all[rank].const_data_ptr<double>();
    ranks.emplace_back(row, row + parts);
  }
  return ranks;
}

void Stragglers::compare(Reporter& reporter, int64_t images_seen) {
  if (group_->world() == 1 || !reads_are_free(device_of(*group_))) return;
  if (iterations_ < kIterations) return;
  const auto ranks = seconds_of_ranks();
  const RankTime slowest = time_of(ranks, slowest_of(ranks));
  reporter.record("Ranks/behind", torch::tensor(slowest.behind(), at::kDouble));
  reporter.record("Ranks/slowest", torch::tensor(static_cast<double>(slowest.rank), at::kDouble));
  std::erase_if(named_, [&](int64_t rank) {
    const bool caught_up = time_of(ranks, static_cast<size_t>(rank)).behind() < kRecovered;
    if (caught_up && group_->rank() == 0) info("rank {} is no longer behind the others", rank);
    return caught_up;
  });
  if (slowest.behind() > kBehind && named_.insert(slowest.rank).second) tell(slowest, images_seen);
  std::ranges::fill(seconds_, 0);
  iterations_ = 0;
  begun_ = images_seen;
}

void Stragglers::tell(const RankTime& slowest, int64_t images_seen) {
  const std::string host = text_of_rank(host_name(), slowest.rank, *group_, device_of(*group_));
  if (group_->rank() != 0) return;
  warn(
      "rank {} ({}) computes {:.0f} % longer than the others: {:.3g} s an iteration against "
      "{:.3g} s, over {} iterations from {} to {} kimg; it loses most in \"{}\"",
      slowest.rank,
      host,
      100 * slowest.behind(),
      slowest.seconds,
      slowest.others,
      iterations_,
      kimg_text(begun_),
      kimg_text(images_seen),
      parts_[slowest.part]);
}

}  // namespace gantrain
