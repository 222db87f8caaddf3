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

// Hands out one rank's share of consecutive global batches. `workers` threads prepare the pictures
// of up to 4 batches ahead; the batches do not depend on their number. The threads block all
// signals and use no parallelism of their own. The memory of a batch is used again once nobody
// holds its tensors. The destructor waits until each thread has finished its present picture.
class Loader {
 public:
  // The first batch begins at image `first_image`, counted over all ranks from the start of the
  // run. If the pictures of the data set are larger than options.resolution, as in the early stages
  // of a progressive network, they are averaged down to it. Where options.workers is auto,
  // `workers` says how many threads there are; 0: each batch is loaded when it is asked for.
  Loader(std::shared_ptr<const Dataset> dataset,
         const DataOptions& options,
         uint64_t seed,
         const RankInfo& ranks,
         int64_t first_image,
         int64_t global_batch,
         int64_t workers = 1);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next batch. If a picture of it could not be loaded, this call and all further ones
  // throw what the first such picture of the batch threw.
  RealBatch next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantrain
