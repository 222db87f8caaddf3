// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

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

}  // namespace gantrain
