// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "distributed/group.h"
#include "distributed/options.h"

namespace gantrain {

struct ReducerSettings {
  bool find_unused = false;   // search each backward's graph for parameters outside it
  bool skip_unused = false;   // and leave out buckets of such alone; ranks must agree on them
  bool static_graph = false;  // learn the graph in the first backward, keep it
  bool views = true;          // gradients live in the buckets
  int64_t first_bucket_bytes = 1 << 20;
  int64_t bucket_bytes = 25 << 20;
  Compress compress = Compress::kNone;
};

// c10d::Reducer behind the few calls that gantrain makes of it, because its constructor differs
// between LibTorch releases. While it lives, it has a hook on each parameter's gradient; once
// armed, the next backward makes the gradients the mean over ranks. No two may live on one
// parameter.
class BucketReducer {
 public:
  // `parameters` need gradients (or this crashes), in the order in which theirs get ready. Throws
  // UserError(kUsage) where the build has no Reducer (reducer_absent.cpp).
  BucketReducer(const ReducerSettings& settings,
                const Group& group,
                const NamedTensors& parameters);
  ~BucketReducer();
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;

  // Before a backward that is to be reduced. `outputs`: where the search for unused parameters
  // begins.
  void arm(const std::vector<at::Tensor>& outputs);
  // With static_graph, after the first backward: reduces what it has left behind.
  void reduce_late();
  // Throws what c10d throws if the last armed backward has not touched all parameters.
  void check_finished();
  // Assigns buckets anew in the order in which gradients arrived, as DistributedDataParallel does
  // after its first iteration. That changes the order of sums: for the table of its modes alone.
  void rebuild_buckets();

  int64_t buckets() const;
  bool static_graph() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gantrain
