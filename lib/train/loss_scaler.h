// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/safetensors.h"

namespace gantrain {

// How a loss is scaled so that small gradients survive float16 (Micikevicius et al. 2018,
// sec. 3.2).
struct ScalerSettings {
  double init = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;  // good steps between two growths
  bool dynamic = true;      // false: the scale never changes
};

// The loss scale of one network, by PyTorch's rule: after a step with a gradient that is not finite
// the scale is multiplied by `backoff`; after `interval` good steps in a row it is multiplied by
// `growth`, unless that overflows. Scale and verdict stay on the device. Ranks agree because they
// see equal gradients.
class LossScaler {
 public:
  LossScaler(const ScalerSettings& settings, at::Device device);

  // Returns loss * scale, float32.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, in place; undefined ones are skipped. Returns a float32
  // scalar: 1 if one of them was not finite, else 0.
  at::Tensor unscale_(const std::vector<at::Tensor>& gradients) const;
  // Updates the scale after a step; `found_nonfinite` is what unscale_() returned, 1 if the step
  // was left out.
  void update(const at::Tensor& found_nonfinite);

  const at::Tensor& current() const { return scale_; }  // float32 [1]
  // Returns "scale" and "growth_tracker", the tensors themselves.
  NamedTensors state() const;

 private:
  ScalerSettings settings_;
  at::Tensor scale_;    // float32 [1]
  at::Tensor tracker_;  // int32 [1]
};

// Returns the name of the first tensor that holds a value that is not finite, or "". Waits for the
// device.
std::string first_nonfinite(const NamedTensors& tensors);

}  // namespace gantrain
