// SPDX-License-Identifier: Apache-2.0
#include "launch/first_cause.h"

#include <algorithm>

#include "util/error.h"

namespace gantrain {

namespace {

using Kind = NodeReport::Kind;

constexpr double kCauseWait = 2;  // seconds in which the cause of a victim's failure has to show

bool waits(const NodeReport& r) { return !r.before.empty() || !r.after.empty(); }

// The report whose rank has come least far, by the reports that name one.
const NodeReport* furthest_behind_of(const std::vector<NodeReport>& reports) {
  std::vector<const NodeReport*> naming;
  std::vector<RankProgress> progress;
  for (const NodeReport& report : reports) {
    if (report.behind.empty()) continue;
    naming.push_back(&report);
    progress.push_back(report.progress);
    // Nodes have clocks of their own: no sign of life is older than another node's.
    progress.back().heartbeat_ns = 0;
  }
  return naming.empty() ? nullptr : naming[furthest_behind(progress)];
}

// How the attempt ends if `waiting` waited for the rank that `last` names.
std::optional<Outcome> behind_outcome(const NodeReport& waiting, const NodeReport& last) {
  const bool hang = waiting.kind == Kind::kHang;
  if (!hang && !is_behind(last.progress, waiting.waiting)) return std::nullopt;
  // Where nobody is certainly behind, the one that this node itself found is as good.
  if (hang && !is_behind(last.progress, waiting.progress)) return std::nullopt;
  Outcome end = waiting.end;
  end.code = static_cast<int>(Exit::kRankDied);
  end.error = waiting.before + last.behind + waiting.after;
  end.restartable = end.resumable = true;
  end.iteration = last.progress.iteration;
  return end;
}

}  // namespace

void FirstCause::add(const NodeReport& report, double now) {
  if (report.kind != Kind::kProgress && !first_at_) first_at_ = now;
  reports_.push_back(report);
}

std::optional<double> FirstCause::deadline() const {
  if (!first_at_) return std::nullopt;
  const bool known = std::any_of(
      reports_.begin(), reports_.end(), [](const NodeReport& r) { return r.kind == Kind::kCause; });
  return known ? *first_at_ : *first_at_ + kCauseWait;
}

std::optional<Outcome> FirstCause::decide(double now) const {
  if (!first_at_ || now < *deadline()) return std::nullopt;
  for (const NodeReport& report : reports_) {
    if (report.kind == Kind::kCause) return report.end;
  }
  const NodeReport* last = furthest_behind_of(reports_);
  const NodeReport* first = nullptr;
  for (const NodeReport& report : reports_) {
    if (report.kind == Kind::kProgress) continue;
    if (first == nullptr) first = &report;
    if (last == nullptr || !waits(report)) continue;
    if (const auto end = behind_outcome(report, *last)) return end;
  }
  return first->end;
}

}  // namespace gantrain
