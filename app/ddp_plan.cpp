// SPDX-License-Identifier: Apache-2.0
#include "ddp_plan.h"

#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "config/message.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kFlat = std::numeric_limits<double>::infinity();

SimulatedTime step_with(const Workload& work, double mb, int64_t ranks, const Cluster& cluster) {
  return simulate_step(work, bucket_sizes(work, mb), ranks, cluster, Overlap::kBackward);
}

// Of sizes that are equally good within a thousandth, the workload's own is kept.
void choose_bucket(const Workload& work, const Cluster& cluster, PlanRow& row) {
  constexpr double kEqual = 1e-3;
  row.best_mb = work.bucket_mb;
  row.best = row.step;
  for (const double mb : {1.0, 5.0, 10.0, 25.0, 50.0, 100.0, kFlat}) {
    const SimulatedTime step = step_with(work, mb, row.ranks, cluster);
    const double needed = row.best_mb == work.bucket_mb ? 1 - kEqual : 1;
    if (step.seconds >= needed * row.best.seconds) continue;
    row.best_mb = mb;
    row.best = step;
  }
}

PlanRow row_of(Workload work, const PlanRequest& request, int64_t ranks) {
  if (request.global_batch) {
    const auto share = static_cast<double>(*request.global_batch) / static_cast<double>(ranks);
    scale_compute(work, share / static_cast<double>(work.batch));
  }
  PlanRow row;
  row.ranks = ranks;
  row.compute = work.compute();
  row.step = step_with(work, work.bucket_mb, ranks, request.cluster);
  choose_bucket(work, request.cluster, row);
  row.graphs = simulate_step(work, {}, ranks, request.cluster, Overlap::kNone).seconds;
  row.graphs_are_best = request.graphs_save > row.graphs_must_save();
  return row;
}

void check_workload(const Workload& work, const std::string& file) {
  const auto check = [&](const std::string& key, bool holds) {
    if (!holds) fail(Exit::kInput, "{}: {} of {} is out of range", file, key, work.name);
  };
  const auto is_amount = [](double value) { return std::isfinite(value) && value >= 0; };
  check("batch", work.batch >= 1);
  check("bucket_mb", is_amount(work.bucket_mb) && work.bucket_mb > 0);
  check("first_bucket_mb", is_amount(work.first_bucket_mb) && work.first_bucket_mb > 0);
  check("wire", is_amount(work.wire));
  check("rest", is_amount(work.rest));
  check("shared_bytes", is_amount(work.shared_bytes));
  for (const PhaseWork& phase : work.phases) {
    const std::string at = "phases: " + phase.name + ": ";
    check(at + "interval", phase.interval >= 1);
    for (const double seconds : {phase.forward, phase.backward, phase.update})
      check(at + "forward, backward or update", is_amount(seconds));
    for (const GradientWork& gradient : phase.gradients) {
      check(at + "gradients: bytes", is_amount(gradient.bytes));
      check(at + "gradients: ready", is_amount(gradient.ready) && gradient.ready <= 1);
    }
  }
  check("the time of an iteration", work.compute() > 0);
}

Workload workload_from(const Json& json, const std::string& file) {
  try {
    return message_from<Workload>(json);
  } catch (const std::logic_error& e) {  // the file was edited, or another version wrote it
    fail(Exit::kInput, "{}: workload: {}", file, e.what());
  }
}

}  // namespace

std::vector<int64_t> rank_counts(int64_t most) {
  std::vector<int64_t> counts = {1};
  for (int64_t n = most > 8 ? 8 : 2; n < most; n *= 2) counts.push_back(n);
  if (most > 1) counts.push_back(most);
  return counts;
}

void use_given_times(Workload& work, const std::vector<GivenTime>& given) {
  if (given.empty()) return;
  if (given.size() == 1 && given.front().phase.empty()) {
    scale_compute(work, given.front().seconds / work.compute());
    return;
  }
  std::vector<std::string> names;
  for (const PhaseWork& phase : work.phases) names.push_back(phase.name);
  names.emplace_back("rest");
  for (const GivenTime& time : given) {
    if (std::find(names.begin(), names.end(), time.phase) == names.end())
      fail(Exit::kUsage, "--compute-ms {}: {} has {}", time.phase, work.name, join(names, ", "));
  }
  const auto seconds_of = [&](const std::string& name) -> std::optional<double> {
    for (const GivenTime& time : given) {
      if (time.phase == name) return time.seconds;
    }
    return std::nullopt;
  };
  for (PhaseWork& phase : work.phases) {
    const auto seconds = seconds_of(phase.name);
    if (!seconds)
      fail(Exit::kUsage,
           "--compute-ms lacks {}; {} has {}",
           phase.name,
           work.name,
           join(names, ", "));
    const double factor = phase.compute() > 0 ? *seconds / phase.compute() : 0;
    phase.forward *= factor;
    phase.update *= factor;
    phase.backward = *seconds - phase.forward - phase.update;
  }
  work.rest = seconds_of("rest").value_or(0);
}

Plan plan_of(const Workload& work, const PlanRequest& request) {
  Plan plan;
  if (request.graphs_save >= work.compute()) {
    fail(Exit::kUsage,
         "--graphs-save-ms {:g}: an iteration of {} computes for {}",
         1e3 * request.graphs_save,
         work.name,
         time_text(work.compute()));
  }
  for (const int64_t ranks : rank_counts(request.ranks)) {
    if (request.global_batch && *request.global_batch < ranks) {
      fail(Exit::kUsage,
           "--global-batch {} is less than a picture for each of {} ranks; --simulate {} at most",
           *request.global_batch,
           ranks,
           *request.global_batch);
    }
    const PlanRow& row = plan.rows.emplace_back(row_of(work, request, ranks));
    if (!plan.shows_at && row.step.exposed > kShows * row.step.seconds) plan.shows_at = ranks;
  }
  return plan;
}

std::vector<Workload> read_workloads(const std::string& file) {
  const std::string text = trim(read_file(file));
  // The table may stand before it, and an editor may have broken the line.
  const Json json =
      parse_json(starts_with(text, "{") ? text : split(text, '\n').back(), file, Exit::kInput);
  std::vector<Workload> all;
  if (json.is_object() && json.contains("nets") && json.at("nets").is_array()) {
    for (const Json& net : json.at("nets")) {
      if (!net.is_object() || !net.contains("workload")) continue;
      all.push_back(workload_from(net.at("workload"), file));
      check_workload(all.back(), file);
    }
  }
  if (all.empty())
    fail(Exit::kInput,
         "{}: no workload; gantrain bench ddp --simulate N --json > FILE writes one",
         file);
  return all;
}

}  // namespace gantrain
