// SPDX-License-Identifier: Apache-2.0
// What a plan says on the screen and in JSON.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "config/message.h"
#include "ddp_plan.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::string link_text(const Link& link) {
  return fmt::format("{} GB/s, {} us", number(link.bandwidth / 1e9), number(link.latency * 1e6));
}

std::string bucket_text(double mb) {
  return std::isinf(mb) ? "flat" : fmt::format("{} MiB", number(mb));
}

void print_workload(const Workload& work) {
  fmt::print("\n{}\n  {} picture{} a rank, {} of computing an iteration\n",
             work.about,
             work.batch,
             work.batch == 1 ? "" : "s",
             time_text(work.compute()));
  const std::string buckets = fmt::format("{} buckets", bucket_text(work.bucket_mb));
  fmt::print("  {:<8} {:>9} {:>10} {:>10} {:>10} {:>12} {:>16}\n",
             "phase",
             "one in",
             "forward",
             "backward",
             "update",
             "gradients",
             buckets);
  const BucketSizes sizes = bucket_sizes(work, work.bucket_mb);
  for (const PhaseWork& phase : work.phases) {
    double bytes = 0;
    for (const GradientWork& gradient : phase.gradients) bytes += gradient.bytes;
    fmt::print("  {:<8} {:>9} {:>10} {:>10} {:>10} {:>9.2f} MB {:>16}\n",
               phase.name,
               phase.interval,
               time_text(phase.forward),
               time_text(phase.backward),
               time_text(phase.update),
               bytes / 1e6,
               buckets_of(phase, sizes).size());
  }
}

void print_rows(const std::vector<PlanRow>& rows) {
  fmt::print("\n  {:>6} {:>10} {:>10} {:>11} {:>14} {:>9} {:>12} {:>12}\n",
             "ranks",
             "step",
             "speed-up",
             "efficiency",
             "communication",
             "exposed",
             "best bucket",
             "graphs from");
  for (const PlanRow& row : rows) {
    const bool alone = row.ranks == 1;
    fmt::print("  {:>6} {:>10} {:>10.1f} {:>9.1f} % {:>14} {:>7.2f} % {:>12} {:>12}\n",
               row.ranks,
               time_text(row.step.seconds),
               static_cast<double>(row.ranks) * row.efficiency(),
               100 * row.efficiency(),
               time_text(row.step.communication),
               100 * row.step.exposed / row.step.seconds,
               alone ? "-" : bucket_text(row.best_mb),
               alone ? "-" : time_text(row.graphs_must_save()));
  }
}

// "25 MiB up to 64 ranks, then 100 MiB".
std::string runs_of(const std::vector<PlanRow>& rows,
                    const std::function<std::string(const PlanRow&)>& say) {
  std::string text, last;
  int64_t before = 0;
  for (const PlanRow& row : rows) {
    if (row.ranks == 1) continue;
    const std::string word = say(row);
    if (text.empty()) {
      text = word;
    } else if (word != last) {
      text += fmt::format(" up to {} ranks, then {}", before, word);
    }
    last = word;
    before = row.ranks;
  }
  return text;
}

void print_answers(const Workload& work, const Plan& plan, double graphs_save) {
  const PlanRow& most = plan.rows.back();
  if (most.ranks == 1) return;
  if (plan.shows_at) {
    fmt::print(
        "communication shows from {} ranks on: more than {} % of a step is spent on it alone\n",
        *plan.shows_at,
        number(100 * kShows));
  } else {
    fmt::print("communication does not show up to {} ranks: no step spends {} % on it alone\n",
               most.ranks,
               number(100 * kShows));
  }
  fmt::print("best bucket (dist.bucket_mb is {}): {}\n",
             number(work.bucket_mb),
             runs_of(plan.rows, [](const PlanRow& row) { return bucket_text(row.best_mb); }));
  if (graphs_save > 0) {
    fmt::print("graphs that save {} an iteration, or overlap: {}\n",
               time_text(graphs_save),
               runs_of(plan.rows, [](const PlanRow& row) {
                 return row.graphs_are_best ? "graphs" : "overlap";
               }));
  } else {
    fmt::print(
        "graphs or overlap: overlap, unless graphs save more than {} an iteration at {} ranks\n"
        "  (--graphs-save-ms says what they save)\n",
        time_text(most.graphs_must_save()),
        most.ranks);
  }
}

Json to_json(const Plan& plan) {
  Json rows = Json::array();
  for (const PlanRow& row : plan.rows) {
    rows.push_back({{"ranks", row.ranks},
                    {"compute", row.compute},
                    {"seconds", row.step.seconds},
                    {"efficiency", row.efficiency()},
                    {"communication", row.step.communication},
                    {"exposed", row.step.exposed},
                    {"best_bucket_mb", std::isinf(row.best_mb) ? Json("flat") : Json(row.best_mb)},
                    {"best_seconds", row.best.seconds},
                    {"graphs_seconds", row.graphs},
                    {"graphs_must_save", row.graphs_must_save()},
                    {"choice", row.graphs_are_best ? "graphs" : "overlap"}});
  }
  return rows;
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds >= 10) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.01) return fmt::format("{:.1f} ms", 1e3 * seconds);
  return fmt::format("{:.3f} ms", 1e3 * seconds);
}

Json report_cluster(const PlanRequest& request) {
  const Cluster& c = request.cluster;
  fmt::print(
      "links of a rank, each way: {} between nodes of {} rank{}, {} within a node\n"
      "exposed: share of a step in which ranks only communicate; graphs from: what they must save\n"
      "  in an iteration to be faster, since they send all gradients after the backward pass\n",
      link_text(c.between),
      c.ranks_per_node,
      c.ranks_per_node == 1 ? "" : "s",
      link_text(c.within));
  Json json = message_of(request);
  json.erase("given");
  return json;
}

Json report_plan(Workload work, const PlanRequest& request) {
  use_given_times(work, request.given);
  print_workload(work);
  const Plan plan = plan_of(work, request);
  print_rows(plan.rows);
  print_answers(work, plan, request.graphs_save);
  std::fflush(stdout);
  return {{"name", work.name},
          {"workload", message_of(work)},
          {"rows", to_json(plan)},
          {"shows_at", plan.shows_at ? Json(*plan.shows_at) : Json()}};
}

}  // namespace gantrain
