// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "data/options.h"
#include "util/rank_info.h"

namespace gantrain {

// One rank's share of a global batch, on the CPU: its samples rank, rank + world, rank + 2 world,
// ...
struct RealBatch {
  at::Tensor images;  // uint8 [m, C, R, R]
  at::Tensor labels;  // int64 [m]; undefined without labels
  int64_t first = 0;  // images of all ranks before this global batch
  double waited = 0;  // seconds that next() had to wait
};

// Hands out one rank's share of consecutive global batches. options.workers threads prepare up to
// workers + 2 batches ahead; the batches do not depend on their number. The threads block all
// signals and use no parallelism of their own. The destructor waits until each thread has finished
// its present picture.
class Loader {
 public:
  // The first batch begins at image `first_image`, counted over all ranks from the start of the
  // run. If the pictures of the data set are larger than options.resolution, as in the early stages
  // of a progressive network, they are averaged down to it.
  Loader(std::shared_ptr<const Dataset> dataset,
         const DataOptions& options,
         uint64_t seed,
         const RankInfo& ranks,
         int64_t first_image,
         int64_t global_batch);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch. If a worker threw while preparing it, this call and all further ones
  // throw the same.
  RealBatch next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantrain
