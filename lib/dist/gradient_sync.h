// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "dist/group.h"
#include "dist/options.h"

namespace gantrain {

// A piece of a network that recipes call by itself ("" is the whole of it), with its trainable
// parameters in registration order.
struct SyncPart {
  std::string name;
  NamedTensors parameters;
};

// Makes the gradients of one network the mean over ranks, whatever the mode. For each micro-batch:
//
//   begin(last);                       // before the forwards; only the last one is reduced
//   forwarded(part, output);           // after each call of a part while it is being trained
//   loss = expect_backward(loss);      // back-propagate what it returns
//   loss.backward();
//   finish();                          // after the last one: every .grad holds the mean
//
// Between phases the trainer sets gradients to undefined. Buckets are assigned once, in reverse
// registration order, and never rebuilt, so that a resumed run sums in the same order.
class GradientSync {
 public:
  // With one rank: a sync that does nothing. Throws std::logic_error on parameters that need no
  // gradient.
  static std::unique_ptr<GradientSync> create(const DistOptions& options,
                                              std::shared_ptr<Group> group,
                                              const std::string& player,
                                              std::vector<SyncPart> parts);
  virtual ~GradientSync() = default;

  virtual void begin(bool /*last*/) {}
  virtual void forwarded(const std::string& /*part*/, const at::Tensor& /*output*/) {}
  // Throws std::logic_error naming the part that was not called (wrapper mode).
  virtual at::Tensor expect_backward(const at::Tensor& loss) { return loss; }
  virtual void finish() {}
  // All-reduces that a finished backward has cost, the bitmap of unused parameters aside.
  virtual int64_t buckets() const { return 0; }
};

}  // namespace gantrain
