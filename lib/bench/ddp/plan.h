// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"

// A model of a data-parallel iteration: what each phase computes and sends, and how much of the
// sending hides behind the backward pass. All times are in seconds. No torch.
//
// What it leaves out: ranks of unequal speed, links that several ranks share beyond what their
// bandwidth says, and the part of a device that communication takes from computing.

namespace gantrain {

// What one rank sends and receives through, in each direction.
struct Link {
  double bandwidth = 0;  // bytes a second
  double latency = 0;    // seconds from one rank to the next
};

template <class Field>
void fields(Link& o, Field&& field) {
  field("bandwidth", o.bandwidth);
  field("latency", o.latency);
}

// Nodes of equally many ranks. The defaults are those of H100 nodes: a network adapter of 400 Gb/s
// for each rank, and NVLink 4 within a node.
struct Cluster {
  Link between{50e9, 10e-6};
  Link within{450e9, 1e-6};
  int64_t ranks_per_node = 8;
};

template <class Field>
void fields(Cluster& o, Field&& field) {
  field("between", o.between);
  field("within", o.within);
  field("ranks_per_node", o.ranks_per_node);
}

// Returns the seconds of an all-reduce over ranks 0 to `ranks` - 1. Within a node it is a ring,
// between nodes a ring or a double binary tree, whichever is faster. The levels are pipelined:
// their latencies add up, and the slower one sets the bandwidth. Without bytes nothing is sent.
double all_reduce_seconds(double bytes, int64_t ranks, const Cluster& cluster);

// A parameter's gradient, as a phase's last backward pass makes it.
struct GradientWork {
  double bytes = 0;
  double ready = 0;  // share of the backward pass after which it is there: 0 to 1
};

template <class Field>
void fields(GradientWork& o, Field&& field) {
  field("bytes", o.bytes);
  field("ready", o.ready);
}

// What one rank does in a phase.
struct PhaseWork {
  std::string name;
  int64_t interval = 1;  // it runs in one of so many iterations
  double forward = 0;    // seconds until the backward pass whose gradients are sent begins
  double backward = 0;   // seconds of that pass
  double update = 0;     // seconds of the optimizer
  std::vector<GradientWork> gradients = {};  // in the order in which they are reduced

  double compute() const { return forward + backward + update; }
};

template <class Field>
void fields(PhaseWork& o, Field&& field) {
  field("name", o.name);
  field("interval", o.interval);
  field("forward", o.forward);
  field("backward", o.backward);
  field("update", o.update);
  field("gradients", o.gradients);
}

// What one rank does in an iteration.
struct Workload {
  std::string name;
  std::string about;
  int64_t batch = 1;           // pictures of a rank
  double bucket_mb = 25;       // dist.bucket_mb, MiB
  double first_bucket_mb = 1;  // dist.first_bucket_mb, MiB
  double wire = 1;             // bytes sent for a byte of gradient: a half with dist.compress
  double rest = 0;             // seconds outside the phases
  double shared_bytes = 0;     // of the all-reduce at the end of the iteration
  std::vector<PhaseWork> phases = {};

  double compute() const;  // seconds of a mean iteration of one rank alone
};

template <class Field>
void fields(Workload& o, Field&& field) {
  field("name", o.name);
  field("about", o.about);
  field("batch", o.batch);
  field("bucket_mb", o.bucket_mb);
  field("first_bucket_mb", o.first_bucket_mb);
  field("wire", o.wire);
  field("rest", o.rest);
  field("shared_bytes", o.shared_bytes);
  field("phases", o.phases);
}

// A bucket is full once it holds so many bytes; it holds whole gradients.
struct BucketSizes {
  double first = std::numeric_limits<double>::infinity();
  double others = std::numeric_limits<double>::infinity();
};

// Returns the sizes for dist.bucket_mb = `mb`; infinite: one flat bucket.
BucketSizes bucket_sizes(const Workload& work, double mb);

// Several gradients that are sent together.
struct Bucket {
  double bytes = 0;
  double ready = 0;  // seconds after the backward pass began
};

// Returns the buckets in the order in which they are sent. One waits for those before it, as
// c10d::Reducer has it.
std::vector<Bucket> buckets_of(const PhaseWork& phase, const BucketSizes& sizes);

// Whether buckets are sent during the backward pass, one after the other, or all after it.
enum class Overlap { kBackward, kNone };

// A phase, or a mean iteration.
struct SimulatedTime {
  double seconds = 0;
  double communication = 0;  // seconds of its all-reduces
  double exposed = 0;        // of these, the seconds in which nothing is computed
};

SimulatedTime simulate_phase(const PhaseWork& phase,
                             const std::vector<Bucket>& buckets,
                             double wire,
                             int64_t ranks,
                             const Cluster& cluster,
                             Overlap overlap);

// A mean iteration: phases that run in one of n iterations count with an n-th of their time.
SimulatedTime simulate_step(const Workload& work,
                            const BucketSizes& sizes,
                            int64_t ranks,
                            const Cluster& cluster,
                            Overlap overlap);

// Multiplies all times of computing.
void scale_compute(Workload& work, double factor);

// A time of computing measured elsewhere. `phase` "" is the whole iteration, "rest" what is outside
// the phases.
struct GivenTime {
  std::string phase;
  double seconds = 0;
};

struct PlanRequest {
  int64_t ranks = 1024;  // the largest number
  Cluster cluster;
  std::vector<GivenTime> given;         // --compute-ms
  double graphs_save = 0;               // seconds an iteration
  std::optional<int64_t> global_batch;  // instead of a fixed batch of a rank
};

// Without the given times, which the workloads then have.
template <class Field>
void fields(PlanRequest& o, Field&& field) {
  field("ranks", o.ranks);
  field("cluster", o.cluster);
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

// Amounts on the command line; `flag` names the flag in errors. All throw UserError(kUsage) with
// what is allowed.
// Returns bytes a second of "50", "50GB/s" (gigabytes) or "400Gb/s" (gigabits).
double bandwidth_of(const std::string& flag, const std::string& text);
// Returns the seconds of "10" or "10us" (microseconds); 0 is allowed.
double latency_of(const std::string& flag, const std::string& text);
// Reads "180" (an iteration), or "D=60,G=80,rest=5" (phases), in milliseconds.
std::vector<GivenTime> given_times_of(const std::string& flag, const std::string& text);

}  // namespace gantrain
