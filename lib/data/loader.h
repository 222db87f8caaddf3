// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "data/options.h"

namespace gantrain {

// The part of each global batch that belongs to one rank: samples rank, rank + world, ...
struct Slice {
  int64_t rank = 0;
  int64_t world = 1;
};

// One rank's share of a global batch, on the CPU.
struct RealBatch {
  at::Tensor images;  // uint8 [m, C, R, R]
  at::Tensor labels;  // int64 [m]; undefined without labels
  int64_t first = 0;  // counter of the global batch's first image
  double waited = 0;  // seconds that next() had to wait
};

// Hands out one rank's share of consecutive global batches. options.workers threads prepare
// batches ahead (workers + 2 at most); what comes out does not depend on their number. The threads
// block all signals and use no parallelism of their own. The destructor waits for at most one
// picture a thread.
class Loader {
 public:
  // Pictures of a data set that are larger than options.resolution (a progressive network's early
  // stages) are averaged down to it.
  Loader(std::shared_ptr<const Dataset> dataset,
         const DataOptions& options,
         uint64_t seed,
         Slice slice,
         int64_t first_image,
         int64_t global_batch);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. Throws what a worker threw while preparing it, at every call from then on.
  RealBatch next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantrain
