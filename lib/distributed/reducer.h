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
  // Before each backward pass, search the graph for parameters that take no part in it.
  bool find_unused = false;
  // Leave out buckets in which no parameter takes part. All ranks must find the same ones.
  bool skip_unused = false;
  // Learn in the first backward pass which parameters take part, and expect the same ones later.
  bool static_graph = false;
  // The gradients are views into the buckets and not tensors of their own.
  bool views = true;
  int64_t first_bucket_bytes = 1 << 20;
  int64_t bucket_bytes = 25 << 20;
  Compress compress = Compress::kNone;
};

// Hides c10d::Reducer, whose constructor differs between LibTorch releases, behind the few calls
// that gantrain makes of it. While it lives, it has a hook on the gradient of each parameter. After
// it was armed, the next backward pass replaces the gradients by their mean over ranks. Two of them
// must not have a parameter in common at the same time.
class BucketReducer {
 public:
  // All `parameters` must require gradients, or this crashes. They come in the order in which their
  // gradients get ready. Throws UserError(kUsage) if this build has no Reducer
  // (reducer_absent.cpp).
  static std::unique_ptr<BucketReducer> make(const ReducerSettings& settings,
                                             const Group& group,
                                             const NamedTensors& parameters);
  virtual ~BucketReducer() = default;

  // Says that the next backward pass is to be reduced. The search for unused parameters begins at
  // `outputs`.
  virtual void arm(const std::vector<at::Tensor>& outputs) = 0;
  // With static_graph, this must be called after the first backward pass. It reduces the gradients,
  // which that pass has not done yet.
  virtual void reduce_late() = 0;
  // Throws what c10d throws if a parameter took no part in the backward pass that was armed last.
  virtual void check_finished() = 0;
  // Assigns the parameters to buckets anew, in the order in which their gradients got ready, as
  // DistributedDataParallel does after its first iteration. This changes the order in which numbers
  // are added up, so only the table of DDP modes (lib/ddp_table) uses it.
  virtual void rebuild_buckets() = 0;

  virtual int64_t buckets() const = 0;
};

}  // namespace gantrain
