// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "ddp_model.h"

// What `gantrain bench ddp --simulate N` says about a workload: step time against ranks, where
// communication starts to show, the best bucket size, graphs or overlap. No torch.

namespace gantrain {

// A time of computing measured elsewhere. `phase` "" is the whole iteration, "rest" what is outside
// the phases.
struct GivenTime {
  std::string phase;
  double seconds = 0;
};

template <class Field>
void fields(GivenTime& o, Field&& field) {
  field("phase", o.phase);
  field("seconds", o.seconds);
}

struct PlanRequest {
  int64_t ranks = 1024;  // the largest number
  Cluster cluster;
  std::vector<GivenTime> given;         // --compute-ms
  double graphs_save = 0;               // seconds an iteration
  std::optional<int64_t> global_batch;  // instead of a fixed batch of a rank
};

template <class Field>
void fields(PlanRequest& o, Field&& field) {
  field("ranks", o.ranks);
  field("cluster", o.cluster);
  field("given", o.given);
  field("graphs_save", o.graphs_save);
  field("global_batch", o.global_batch);
}

// A mean iteration of so many ranks.
struct PlanRow {
  int64_t ranks = 1;
  double compute = 0;  // seconds of one rank
  SimulatedTime step;  // with the workload's own buckets
  double best_mb = 0;  // the bucket size with the shortest step; infinite: one flat bucket
  SimulatedTime best;  // that step
  double graphs = 0;   // seconds of a step of graphs that save nothing
  bool graphs_are_best = false;  // where they save what the request says

  double efficiency() const { return compute / step.seconds; }
  // Seconds that graphs must save in an iteration to be as fast as the overlap with the best
  // buckets: they send everything after the backward pass.
  double graphs_must_save() const { return graphs - best.seconds; }
};

// Communication shows where more than this share of a step is spent on it alone.
inline constexpr double kShows = 0.02;

struct Plan {
  std::vector<PlanRow> rows;
  std::optional<int64_t> shows_at;  // ranks of the first row in which communication shows
};

// Returns 1, 8, 16, 32, ... up to `most`, which is the last; up to 8 ranks it is 1, 2, 4, ...
std::vector<int64_t> rank_counts(int64_t most);

// Puts times that were measured elsewhere in the place of the workload's. Within a phase, the
// shares of forward, backward and update stay. Throws UserError(kUsage) that names the phase which
// is unknown or left out.
void use_given_times(Workload& work, const std::vector<GivenTime>& given);

// Throws UserError(kUsage) where the global batch is smaller than the ranks.
Plan plan_of(const Workload& work, const PlanRequest& request);

// Prints the workload, the table and what follows from it, and returns all of it.
Json report_plan(Workload work, const PlanRequest& request);
// Prints what holds for all workloads, and returns it.
Json report_cluster(const PlanRequest& request);

// Reads the workloads from a file in which --json of an earlier call is the last line. Throws
// UserError(kInput) that names the file and the key.
std::vector<Workload> read_workloads(const std::string& file);

// Seconds as "1.234 ms", "123.4 ms" or "12.34 s".
std::string time_text(double seconds);

}  // namespace gantrain
