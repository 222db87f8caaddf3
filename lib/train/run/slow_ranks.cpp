// SPDX-License-Identifier: Apache-2.0
#include "train/run/slow_ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/device.h"
#include "core/torch.h"
#include "train/plan/plan.h"
#include "util/error.h"
#include "util/log.h"
#include "util/sample.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr double kWeak = 0.7;                             // of the median
constexpr double kClockSeconds = 1;                       // by which clocks may differ
constexpr int64_t kReduced = 1 << 18, kLinked = 1 << 18;  // float32 numbers

// The shortest time of `work` within `seconds`; the device is waited for.
template <class Work>
double shortest_time(double seconds, c10::Device device, const Work& work) {
  const double end = monotonic_seconds() + seconds;
  double best = std::numeric_limits<double>::infinity();
  do {
    const double start = monotonic_seconds();
    work();
    if (!device.is_cpu()) wait_for(device);
    best = std::min(best, monotonic_seconds() - start);
  } while (monotonic_seconds() < end);
  return best;
}

double compute_speed(c10::Device device) {
  const int64_t size = device.is_cpu() ? 256 : 2048;
  const at::Tensor a = torch::full({size, size}, 0.5, device);
  at::Tensor out = torch::matmul(a, a);  // libraries choose how
  const double seconds =
      shortest_time(device.is_cpu() ? 0.1 : 0.3, device, [&] { at::matmul_out(out, a, a); });
  return 2.0 * static_cast<double>(size * size * size) / seconds / 1e9;
}

double copy_speed(c10::Device device) {
  at::Tensor from = torch::ones({4 << 20});
  if (!device.is_cpu()) from = from.pin_memory();
  at::Tensor to = torch::zeros_like(from, device);  // zeros: its pages are there
  const double seconds = shortest_time(0.05, device, [&] { to.copy_(from, true); });
  return static_cast<double>(from.nbytes()) / seconds / 1e9;
}

// From this rank to the next one, in two rounds in which neighbours exchange; 0 for the last rank.
double link_speed(Group& group, c10::Device device) {
  constexpr int kTimes = 4;
  at::Tensor numbers = torch::ones({kLinked}, device);
  double speed = 0;
  for (const int64_t odd : {0, 1}) {
    group.barrier();
    const bool sends = group.rank() % 2 == odd;
    const int64_t other = group.rank() + (sends ? 1 : -1);
    if (other < 0 || other >= group.world()) continue;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kTimes; ++i) {  // there and back
      const double start = monotonic_seconds();
      for (const bool first : {true, false}) group.exchange(numbers, other, sends == first);
      best = std::min(best, monotonic_seconds() - start);
    }
    if (sends) speed = 2.0 * static_cast<double>(numbers.nbytes()) / best / 1e9;
  }
  return speed;
}

std::vector<RankSpeed> of_all_ranks(const RankSpeed& mine, Group& group) {
  std::vector<RankSpeed> ranks(static_cast<size_t>(group.world()));
  const auto gather = [&](auto member) {
    const std::vector<double> values = numbers_of_ranks(static_cast<double>(mine.*member), group);
    for (size_t i = 0; i < ranks.size(); ++i)
      ranks[i].*member = static_cast<std::remove_reference_t<decltype(mine.*member)>>(values[i]);
  };
  for (const auto member : {&RankSpeed::compute, &RankSpeed::copy, &RankSpeed::link})
    gather(member);
  gather(&RankSpeed::clock);
  gather(&RankSpeed::node);
  return ranks;
}

std::vector<double> values_of(const std::vector<RankSpeed>& ranks, double RankSpeed::*member) {
  std::vector<double> values;
  for (const RankSpeed& rank : ranks) {
    if (rank.*member > 0) values.push_back(rank.*member);
  }
  return values;
}

std::string range_text(const std::vector<RankSpeed>& ranks,
                       double RankSpeed::*member,
                       const char* what,
                       const char* unit) {
  const std::vector<double> values = values_of(ranks, member);
  if (values.empty()) return "";
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("{} {:.3g} to {:.3g} {}, ", what, least, most, unit);
}

// The nodes of the ranks, each with how many ranks it has.
std::map<int64_t, size_t> sizes_of_nodes(const std::vector<RankSpeed>& ranks) {
  std::map<int64_t, size_t> sizes;
  for (const RankSpeed& rank : ranks) ++sizes[rank.node];
  return sizes;
}

// A node whose ranks are all weak is named once.
void name_weak(const std::vector<RankSpeed>& ranks,
               double RankSpeed::*member,
               const char* does,
               double share,
               std::vector<std::string>& found) {
  const std::vector<double> values = values_of(ranks, member);
  if (values.size() < 2) return;
  const double usual = median(values);
  std::map<int64_t, std::vector<size_t>> weak;  // by node
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].*member > 0 && ranks[i].*member < share * usual) weak[ranks[i].node].push_back(i);
  }
  const auto sizes = sizes_of_nodes(ranks);
  for (const auto& [node, members] : weak) {
    const bool whole = sizes.size() > 1 && members.size() > 1 && members.size() == sizes.at(node);
    for (const size_t i : members) {
      if (whole && i != members.front()) continue;
      found.push_back(fmt::format("{} {} {} at {:.0f} % of the median ({:.3g} of {:.3g})",
                                  whole ? "node" : "rank",
                                  whole ? node : static_cast<int64_t>(i),
                                  does,
                                  100 * ranks[i].*member / usual,
                                  ranks[i].*member,
                                  usual));
    }
  }
}

}  // namespace

std::vector<std::string> weak_spots(const std::vector<RankSpeed>& ranks, double share) {
  std::vector<std::string> found;
  name_weak(ranks, &RankSpeed::compute, "computes", share, found);
  name_weak(ranks, &RankSpeed::copy, "copies", share, found);
  name_weak(ranks, &RankSpeed::link, "sends to the next rank", share, found);
  for (size_t i = 1; i < ranks.size(); ++i) {
    const double late = ranks[i].clock - ranks[0].clock;
    if (std::abs(late) <= kClockSeconds) continue;
    found.push_back(fmt::format("the clock of rank {} is {:.1f} s {} rank 0's",
                                i,
                                std::abs(late),
                                late > 0 ? "ahead of" : "behind"));
  }
  return found;
}

bool flies_before(const DistOptions& options, const RankInfo& ranks, c10::Device device) {
  if (options.preflight == Preflight::kOnly) return true;
  if (ranks.world == 1 || options.preflight == Preflight::kOff) return false;
  return options.preflight == Preflight::kOn || ranks.nodes > 1 || !device.is_cpu();
}

void preflight(const DistOptions& options, Group& group, c10::Device device) {
  if (!flies_before(options, group.ranks(), device)) return;
  const double start = monotonic_seconds();
  group.barrier();
  RankSpeed mine{.clock = unix_seconds(), .node = group.ranks().node_rank};
  mine.compute = compute_speed(device);
  mine.copy = copy_speed(device);
  if (device.is_cpu()) mine.link = link_speed(group, device);
  at::Tensor sum = torch::ones({kReduced}, device);
  group.barrier();
  const double reduce = shortest_time(0, device, [&] { group.sum_(sum, "preflight"); });
  const std::vector<RankSpeed> ranks = of_all_ranks(mine, group);
  if (group.rank() == 0) {
    info("preflight {} in {:.1f} s: {}{}{}all-reduce of 1 MiB {:.2g} ms",
         counted(group.world(), "rank"),
         monotonic_seconds() - start,
         range_text(ranks, &RankSpeed::compute, "compute", "GFLOP/s"),
         range_text(ranks, &RankSpeed::copy, "copy", "GB/s"),
         range_text(ranks, &RankSpeed::link, "link", "GB/s"),
         1e3 * reduce);
  }
  const std::vector<std::string> found = weak_spots(ranks, kWeak);
  if (found.empty()) return;
  if (options.preflight != Preflight::kAuto)
    fail(Exit::kEnvironment,
         "{}; --preflight auto only warns of it, off does not look",
         join(found, "; "));
  for (const std::string& spot : found) {
    if (group.rank() == 0) warn("{}", spot);
  }
}

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
