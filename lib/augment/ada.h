// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "augment/ada_options.h"
#include "augment/adaptive_strength.h"
#include "core/device_number.h"
#include "core/safetensors.h"
#include "ops/draws.h"
#include "util/size.h"

namespace gantrain {

// The augmentation of all pictures that a discriminator sees, with its strength (Karras et al.
// 2020b): none, adaptive or fixed, as AdaOptions say.
class Ada {
 public:
  // The pictures that it is made for, and the run.
  struct Pictures {
    Size resolution;
    int64_t channels = 3;
    int64_t batch = 1;  // images an iteration, all ranks together
    at::Device device = at::kCPU;
  };
  // Throws UserError(kUsage) for transforms that do not work on these pictures (check_augment).
  Ada(const AdaOptions& options, const AugmentOptions& transforms, const Pictures& pictures);

  // Returns the pictures x [N, C, H, W] as D sees them. Calls of one iteration that must differ
  // take keys of different phases.
  at::Tensor operator()(const at::Tensor& x, const DrawKey& key, const Samples& samples) const;

  // The present strength, [] float64 on the device.
  const at::Tensor& p() const { return fixed_p_.moves() ? fixed_p_.value() : strength_.p(); }
  // The strength that follows a schedule; a constant where none does.
  DeviceNumber& number() { return fixed_p_; }
  AdaptiveStrength& strength() { return strength_; }
  // Moves p where an interval ends.
  void end_iteration(int64_t iteration);
  // Returns, once, what a strength says from which augmentations leak into pictures; empty
  // otherwise. `gamma` is the key to turn instead. Waits for the device.
  std::vector<std::string> warnings(const std::string& gamma);
  // "ada/p", "ada/signs": all that a resume needs, the tensors themselves.
  NamedTensors state() const;

 private:
  AdaOptions options_;
  AugmentOptions transforms_;
  AdaptiveStrength strength_;
  DeviceNumber fixed_p_;  // of a strength that follows a schedule
};

}  // namespace gantrain
