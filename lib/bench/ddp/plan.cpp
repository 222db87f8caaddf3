// SPDX-License-Identifier: Apache-2.0
#include "bench/ddp/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "config/config.h"
#include "config/schema.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// The two parts of a collective's time.
struct Cost {
  double latency = 0;
  double transfer = 0;
};

// Reduce-scatter and all-gather: 2 (n - 1) messages of an n-th each, one after the other.
Cost ring(double bytes, int64_t count, const Link& link) {
  const auto n = static_cast<double>(count);
  return {2 * (n - 1) * link.latency, 2 * (n - 1) / n * bytes / link.bandwidth};
}

// Up and down a tree. Each rank is a leaf of one of two trees and an inner rank of the other, and
// each tree carries half of the bytes, so that a rank sends all of them twice.
Cost double_tree(double bytes, int64_t count, const Link& link) {
  if (count == 1) return {};
  const auto depth = static_cast<double>(std::bit_width(static_cast<uint64_t>(count - 1)));
  return {2 * depth * link.latency, 2 * bytes / link.bandwidth};
}

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

std::string link_text(const Link& link) {
  return fmt::format(
      "{} GB/s, {} us", shortest(link.bandwidth / 1e9), shortest(link.latency * 1e6));
}

std::string bucket_text(double mb) {
  return std::isinf(mb) ? "flat" : fmt::format("{} MiB", shortest(mb));
}

void print_workload(const Workload& work) {
  fmt::print("\n{}\n  {} a rank, {} of computing an iteration\n",
             work.about,
             counted(work.batch, "picture"),
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
  fmt::print(
      "\n   ranks       step   speed-up  efficiency  communication   exposed  best bucket  "
      "graphs from\n");
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
        shortest(100 * kShows));
  } else {
    fmt::print("communication does not show up to {} ranks: no step spends {} % on it alone\n",
               most.ranks,
               shortest(100 * kShows));
  }
  fmt::print("best bucket (dist.bucket_mb is {}): {}\n",
             shortest(work.bucket_mb),
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

// Takes the unit off the end of the text.
bool take_unit(std::string& text, const std::string& unit) {
  if (!ends_with(text, unit)) return false;
  text = trim(text.substr(0, text.size() - unit.size()));
  return true;
}

double milliseconds(const std::string& flag, const std::string& text, const std::string& word) {
  const auto value = parse_double(word);
  if (!value || !(*value > 0) || *value > 1e9)
    fail(Exit::kUsage,
         "{} {}: milliseconds of an iteration (180), or of each phase (D=60,G=80); above 0",
         flag,
         text);
  return 1e-3 * *value;
}

}  // namespace

double all_reduce_seconds(double bytes, int64_t ranks, const Cluster& cluster) {
  if (bytes <= 0 || ranks <= 1) return 0;
  const int64_t local = std::min(ranks, cluster.ranks_per_node);
  const int64_t nodes = (ranks + local - 1) / local;
  const Cost inside = ring(bytes, local, cluster.within);
  // A node's ranks send its sum through their own adapters, an equal share each.
  const double share = bytes / static_cast<double>(local);
  double least = std::numeric_limits<double>::infinity();
  for (const Cost& outside :
       {ring(share, nodes, cluster.between), double_tree(share, nodes, cluster.between)}) {
    least = std::min(
        least, inside.latency + outside.latency + std::max(inside.transfer, outside.transfer));
  }
  return least;
}

double Workload::compute() const {
  double sum = rest;
  for (const PhaseWork& phase : phases)
    sum += phase.compute() / static_cast<double>(phase.interval);
  return sum;
}

BucketSizes bucket_sizes(const Workload& work, double mb) {
  constexpr double kMiB = 1024.0 * 1024.0;
  if (mb == std::numeric_limits<double>::infinity()) return {};
  return {kMiB * std::min(mb, work.first_bucket_mb), kMiB * mb};
}

std::vector<Bucket> buckets_of(const PhaseWork& phase, const BucketSizes& sizes) {
  std::vector<Bucket> buckets;
  double ready = 0;
  bool open = false;
  for (const GradientWork& gradient : phase.gradients) {
    if (!open) buckets.emplace_back();
    ready = std::max(ready, gradient.ready * phase.backward);
    buckets.back().bytes += gradient.bytes;
    buckets.back().ready = ready;
    open = buckets.back().bytes < (buckets.size() == 1 ? sizes.first : sizes.others);
  }
  return buckets;
}

SimulatedTime simulate_phase(const PhaseWork& phase,
                             const std::vector<Bucket>& buckets,
                             double wire,
                             int64_t ranks,
                             const Cluster& cluster,
                             Overlap overlap) {
  SimulatedTime time;
  double free = 0;  // when the channel is, after the backward pass began
  for (const Bucket& bucket : buckets) {
    const double cost = all_reduce_seconds(wire * bucket.bytes, ranks, cluster);
    const double ready = overlap == Overlap::kBackward ? bucket.ready : phase.backward;
    time.communication += cost;
    if (cost > 0) free = std::max(free, ready) + cost;
  }
  time.exposed = std::max(0.0, free - phase.backward);
  time.seconds = phase.compute() + time.exposed;
  return time;
}

SimulatedTime simulate_step(const Workload& work,
                            const BucketSizes& sizes,
                            int64_t ranks,
                            const Cluster& cluster,
                            Overlap overlap) {
  const double shared = all_reduce_seconds(work.shared_bytes, ranks, cluster);
  SimulatedTime step{work.rest + shared, shared, shared};
  for (const PhaseWork& phase : work.phases) {
    const SimulatedTime one =
        simulate_phase(phase, buckets_of(phase, sizes), work.wire, ranks, cluster, overlap);
    const auto interval = static_cast<double>(phase.interval);
    step.seconds += one.seconds / interval;
    step.communication += one.communication / interval;
    step.exposed += one.exposed / interval;
  }
  return step;
}

void scale_compute(Workload& work, double factor) {
  work.rest *= factor;
  for (PhaseWork& phase : work.phases) {
    phase.forward *= factor;
    phase.backward *= factor;
    phase.update *= factor;
  }
}

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
    if (!contains(names, time.phase))
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
           "--global-batch {} is less than a picture for each of {}; --simulate {} at most",
           *request.global_batch,
           counted(ranks, "rank"),
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
         "{}: no workload; {} bench ddp --simulate N --json > FILE writes one",
         file,
         program());
  return all;
}

std::string time_text(double seconds) {
  if (seconds >= 10) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.01) return fmt::format("{:.1f} ms", 1e3 * seconds);
  return fmt::format("{:.3f} ms", 1e3 * seconds);
}

Json report_cluster(const PlanRequest& request) {
  const Cluster& c = request.cluster;
  fmt::print(
      "links of a rank, each way: {} between nodes of {}, {} within a node\n"
      "exposed: share of a step in which ranks only communicate; graphs from: what they must save\n"
      "  in an iteration to be faster, since they send all gradients after the backward pass\n"
      "not counted: start-up, ticks, samples, metrics, saves, slow ranks, reading data, restarts\n",
      link_text(c.between),
      counted(c.ranks_per_node, "rank"),
      link_text(c.within));
  return message_of(request);
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

double bandwidth_of(const std::string& flag, const std::string& text) {
  std::string digits = text;
  double unit = 1e9;
  if (take_unit(digits, "Gb/s")) {
    unit = 1e9 / 8;
  } else {
    take_unit(digits, "GB/s");
  }
  const auto value = parse_double(digits);
  if (!value || !(*value * unit >= 1e6) || *value * unit > 1e15) {
    fail(Exit::kUsage,
         "{} {}: gigabytes a second of a rank (50 or 50GB/s) or gigabits (400Gb/s); 0.001GB/s to "
         "1000000GB/s",
         flag,
         text);
  }
  return *value * unit;
}

double latency_of(const std::string& flag, const std::string& text) {
  std::string digits = text;
  take_unit(digits, "us");
  const auto value = parse_double(digits);
  if (!value || !(*value >= 0) || *value > 1e6)
    fail(Exit::kUsage, "{} {}: microseconds (10 or 10us), 0 to 1000000", flag, text);
  return 1e-6 * *value;
}

std::vector<GivenTime> given_times_of(const std::string& flag, const std::string& text) {
  if (text.find('=') == std::string::npos) return {{"", milliseconds(flag, text, text)}};
  std::vector<GivenTime> all;
  for (const std::string& word : split(text, ',')) {
    const size_t at = word.find('=');
    const std::string phase = trim(word.substr(0, at));
    const bool twice = std::any_of(
        all.begin(), all.end(), [&](const GivenTime& time) { return time.phase == phase; });
    if (at == std::string::npos || phase.empty() || twice)
      fail(Exit::kUsage, "{} {}: each phase once, as in D=60,G=80", flag, text);
    all.push_back({phase, milliseconds(flag, text, word.substr(at + 1))});
  }
  return all;
}

}  // namespace gantrain
