// SPDX-License-Identifier: Apache-2.0
// The part of the supervisor that speaks with the launchers of other nodes.
#include "launch/node_council.h"
#include "launch/supervisor.h"
#include "util/host_name.h"

namespace gantrain {

using Kind = NodeReport::Kind;

Kind Supervisor::trouble() const {
  if (!started_.error.empty()) return Kind::kCause;
  if (hang_) return Kind::kHang;
  if (failures_.empty()) return Kind::kProgress;
  return is_victim(first_failure(failures_)) ? Kind::kVictim : Kind::kCause;
}

NodeReport Supervisor::node_report(Kind kind) const {
  const std::string here = fmt::format("node {}: ", attempt_.nodes->here().node);
  NodeReport report{.kind = kind, .end = local_outcome()};
  report.end.error = here + report.end.error;
  if (ranks_.empty()) return report;
  std::vector<RankProgress> progress;
  for (size_t i = 0; i < ranks_.size(); ++i) progress.push_back(progress_of(i));
  const size_t last = furthest_behind(progress);
  const RankFailure behind = hang_ ? *hang_ : describe(last, 0, rusage{});
  const auto index = static_cast<size_t>(behind.rank - first_rank(attempt_.world));
  report.progress = progress[index];
  report.behind = here + behind_text(behind, host_name());
  if (kind == Kind::kHang) {
    report.before = hang_text(attempt_.options.hang_timeout.seconds);
  } else if (kind == Kind::kVictim && waited_in_vain(first_failure(failures_))) {
    const RankFailure& waiting = first_failure(failures_);
    report.after = waiting_text(waiting);
    report.waiting = progress[static_cast<size_t>(waiting.rank - first_rank(attempt_.world))];
  }
  return report;
}

bool Supervisor::awaits_verdict() const {
  return attempt_.nodes != nullptr && (attempt_.nodes->awaits_verdict() || trouble() > reported_);
}

void Supervisor::consult_nodes() {
  NodeCouncil* nodes = attempt_.nodes;
  if (nodes == nullptr) return;
  if (const Kind kind = trouble(); kind > reported_) {
    reported_ = kind;
    nodes->report(node_report(kind));
  }
  nodes->exchange();
  if (const auto signal = nodes->take_stop(); signal && stop_signal_ == 0) {
    stop_was_relayed_ = true;
    on_stop_signal(*signal);
    interrupts_ = 0;
  }
  if (nodes->take_question()) nodes->report(node_report(Kind::kProgress));
  if (!nodes->verdict() || aborting_) return;
  abort_all();
  if (ranks_.empty()) kill_all();  // still loading
}

Outcome Supervisor::outcome() const {
  const bool decided = attempt_.nodes != nullptr && attempt_.nodes->verdict();
  return decided ? *attempt_.nodes->verdict() : local_outcome();
}

}  // namespace gantrain
