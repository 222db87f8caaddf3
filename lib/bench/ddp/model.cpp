// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "bench/ddp/plan.h"

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

}  // namespace gantrain
