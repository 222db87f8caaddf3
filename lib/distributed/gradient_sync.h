// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor_files.h"
#include "distributed/group.h"
#include "distributed/options.h"

namespace gantrain {

// Returns a function that maps a tensor x to the sum of x over all ranks, differentiable any number
// of times: the gradient of x is the sum of the output's gradients over all ranks. Each call, and
// each backward pass through a call, is one all-reduce, which all ranks must make in the same
// order.
std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group);

// What this rank adds to the sum over ranks: gradient / ranks, then rounded to half precision
// unless kNone, so that the sum does not overflow where the mean of the gradients does not.
at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks);

// A part of a network that recipes call by itself, with its trainable parameters as registered. The
// part "" is the whole network; the name of a part inside another one begins with its name and a
// dot.
struct SyncPart {
  std::string name;
  NamedTensors parameters;
};

// What is known about the losses by which a network is trained.
struct SyncPromise {
  // Every parameter takes part in every loss on every rank: nothing need search the graph.
  bool all_used = false;
  // Some parameters may be frozen, the same ones on all ranks: buckets of those alone are left out.
  bool some_frozen = false;
};

// Replaces the gradients of one network by their mean over ranks. There is one implementation for
// each mode (dist.ddp_mode), and all are used in the same way. These calls are made for each
// micro-batch, and finish() once after the last one:
//
//   begin(last);                       // before the forward passes; `last`: this is the last one
//   forwarded(part, output);           // after each forward pass of a part that is being trained
//   loss = expect_backward(loss);      // before the backward pass
//   loss.backward();                   // of the loss that expect_backward() has returned
//   finish();                          // afterwards every .grad holds the mean over ranks
//
// Gradients of earlier micro-batches are added up on each rank, and the sum is reduced with the
// last one. A parameter that took part in no rank's loss has a gradient of zeros afterwards, or
// none. The caller sets all gradients to undefined before the first micro-batch. Parameters keep
// their buckets, assigned in the reverse order of their registration, so that a resumed run adds
// numbers in the same order. A network's sync must be destroyed before its next one is made.
class GradientSync {
 public:
  // Makes the sync of the network `player`. With one rank, or without parameters, it does nothing.
  // Throws std::logic_error if a parameter does not require a gradient, and UserError(kUsage) if
  // this build cannot do the mode.
  static std::unique_ptr<GradientSync> create(const DistOptions& options,
                                              std::shared_ptr<Group> group,
                                              const std::string& player,
                                              std::vector<SyncPart> parts,
                                              SyncPromise promise = {});
  virtual ~GradientSync() = default;

  virtual void begin(bool /*last*/) {}
  // In wrapper mode, prepares the reduction of the part, the parts inside it and those around it,
  // through which the call may have run. Throws std::logic_error if there is no such part.
  virtual void forwarded(const std::string& /*part*/, const at::Tensor& /*output*/) {}
  // In wrapper mode, throws std::logic_error that names a trained part that was not called.
  virtual at::Tensor expect_backward(const at::Tensor& loss) { return loss; }
  virtual void finish() {}
  // How many all-reduces one reduction makes, but for that of a search for unused parameters.
  virtual int64_t buckets() const { return 0; }
  // Says in words what was chosen, for example "find-unused off, 2 buckets".
  virtual std::string description() const { return "nothing to reduce"; }
};

// The trainable ones among `parameters` that the graph of `loss` does not reach. The host walks the
// graph; nothing is asked of the device.
NamedTensors unused_parameters(const at::Tensor& loss, const NamedTensors& parameters);

// Returns the loss, whose backward pass also gives zeros to those parameters: so every parameter
// takes part, and gradients are the same to the bit.
at::Tensor with_zero_gradients(const at::Tensor& loss, const NamedTensors& parameters);

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

// c10d::Reducer, whose constructor differs between LibTorch releases. While it lives, it has a hook
// on the gradient of each parameter; after it was armed, the next backward pass replaces the
// gradients by their mean over ranks. Two of them must not have a parameter in common.
class BucketReducer {
 public:
  // All `parameters` must require gradients, or this crashes; in the order in which those get
  // ready. Throws UserError(kUsage) if this build has no Reducer (reducer_absent.cpp).
  static std::unique_ptr<BucketReducer> make(const ReducerSettings& settings,
                                             const Group& group,
                                             const NamedTensors& parameters);
  virtual ~BucketReducer() = default;

  // The next backward pass will be reduced. A search for unused parameters begins at `outputs`.
  virtual void arm(const std::vector<at::Tensor>& outputs) = 0;
  // With static_graph, reduces the gradients after the first backward pass, which has not done it.
  virtual void reduce_late() = 0;
  // Throws what c10d throws if a parameter took no part in the backward pass that was armed last.
  virtual void check_finished() = 0;
  // Assigns the parameters to buckets anew, in the order in which their gradients got ready, as
  // DistributedDataParallel does after its first iteration. It changes the order in which numbers
  // are added up: for the table of DDP modes (lib/ddp_table) alone.
  virtual void rebuild_buckets() = 0;

  virtual int64_t buckets() const = 0;
};

}  // namespace gantrain
