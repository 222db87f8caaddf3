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

// A piece of a network that recipes call by itself ("" is the whole of it), with its trainable
// parameters in registration order.
struct SyncPart {
  std::string name;
  NamedTensors parameters;
};

// What is known of the losses that a network is trained by.
struct SyncPromise {
  // Every parameter takes part in every loss, on every rank: nobody has to search for those that do
  // not.
  bool all_used = false;
  // Parameters may be frozen for a while, the same ones on all ranks: buckets of such alone are
  // left out of the reduction.
  bool some_frozen = false;
};

// Makes the gradients of one network the mean over ranks, whatever the mode. For each micro-batch:
//
//   begin(last);                       // before the forwards; only the last one is reduced
//   forwarded(part, output);           // after each call of a part while it is being trained
//   loss = expect_backward(loss);      // back-propagate what it returns
//   loss.backward();
//   finish();                          // after the last one: every .grad holds the mean
//
// A parameter that took part in no rank's loss has zeros afterwards, or no gradient, which means
// the same. Between phases the trainer sets gradients to undefined. Buckets are assigned once, in
// reverse registration order, and never rebuilt, so that a resumed run sums in the same order. When
// a network changes, its sync is destroyed before the next one is made.
class GradientSync {
 public:
  // With one rank, or without parameters: a sync that does nothing. Parts without parameters cost
  // nothing. Throws std::logic_error on parameters that need no gradient, UserError(kUsage) where
  // the build cannot do the mode.
  static std::unique_ptr<GradientSync> create(const DistOptions& options,
                                              std::shared_ptr<Group> group,
                                              const std::string& player,
                                              std::vector<SyncPart> parts,
                                              SyncPromise promise = {});
  virtual ~GradientSync() = default;

  virtual void begin(bool /*last*/) {}
  // A call of a part arms the parts inside it too, and that of a piece of a part the part. Throws
  // std::logic_error if there is none of that name (wrapper mode).
  virtual void forwarded(const std::string& /*part*/, const at::Tensor& /*output*/) {}
  // Throws std::logic_error naming the part that was not called (wrapper mode).
  virtual at::Tensor expect_backward(const at::Tensor& loss) { return loss; }
  virtual void finish() {}
  // All-reduces that a finished backward has cost, the bitmap of unused parameters aside.
  virtual int64_t buckets() const { return 0; }
  // What was chosen, in words: "find-unused off, 2 buckets".
  virtual std::string description() const { return "nothing to reduce"; }
};

}  // namespace gantrain
