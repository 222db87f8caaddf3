// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "distributed/group.h"
#include "distributed/options.h"

namespace gantrain {

// Returns a function that maps a tensor x to the sum of x over all ranks, on every rank. It is
// differentiable any number of times: since the output of every rank contains the input of every
// rank, the gradient of x is the sum of the output's gradients over all ranks. Each call, and each
// backward pass through a call, is one all-reduce, so all ranks must make the same calls and
// backward passes in the same order.
std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group);

// What this rank adds to the sum over ranks: gradient / ranks, in half precision or, with kNone, in
// the gradient's own dtype. The division comes before the rounding, so that the sum over ranks does
// not overflow where the mean of the gradients does not.
at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks);

// A part of a network that recipes call by itself, with its trainable parameters in the order in
// which they were registered. The part named "" is the whole network. The name of a part that lies
// inside another one begins with that one's name and a dot.
struct SyncPart {
  std::string name;
  NamedTensors parameters;
};

// What is known about the losses by which a network is trained.
struct SyncPromise {
  // Every parameter takes part in every loss on every rank. Then nothing searches the graph for
  // parameters that do not.
  bool all_used = false;
  // Some parameters may be frozen for a while, the same ones on all ranks. Then a bucket that holds
  // only frozen parameters is left out of the reduction.
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
// none, which means the same. The caller sets all gradients to undefined before the first
// micro-batch. Parameters are assigned to buckets once, in the reverse order of their registration,
// and stay there, so that a resumed run adds numbers in the same order. When a network changes, its
// sync must be destroyed before the next one is made.
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
  // In wrapper mode, prepares the reduction of every part that the call may have run through: the
  // named part itself, the parts inside it and the parts around it. Throws std::logic_error if
  // there is no such part. In the other modes it does nothing.
  virtual void forwarded(const std::string& /*part*/, const at::Tensor& /*output*/) {}
  // In wrapper mode, throws std::logic_error that names a part that is being trained but was not
  // called.
  virtual at::Tensor expect_backward(const at::Tensor& loss) { return loss; }
  virtual void finish() {}
  // How many all-reduces one reduction makes. The small one that a search for unused parameters
  // adds is not counted.
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

}  // namespace gantrain
