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
  bool dynamic = true;      // false: the scale stays
};

// One network's loss scale, PyTorch's rule to the digit: after a step with a gradient that is not
// finite, scale * backoff; after `interval` good ones in a row, scale * growth, unless that
// overflows. State and verdict stay on the device; ranks agree because they see equal gradients.
class LossScaler {
 public:
  LossScaler(const ScalerSettings& settings, at::Device device);

  // loss * scale, float32.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, in place; what is undefined is passed over. Returns a
  // float32 scalar: 1 if one of them was not finite, else 0.
  at::Tensor unscale_(const std::vector<at::Tensor>& gradients) const;
  // After a step, or a step left out, with that verdict.
  void update(const at::Tensor& found_nonfinite);

  const at::Tensor& current() const { return scale_; }  // float32 [1]
  // "scale", "growth_tracker": the tensors themselves.
  NamedTensors state() const;

 private:
  ScalerSettings settings_;
  at::Tensor scale_;    // float32 [1]
  at::Tensor tracker_;  // int32 [1]
};

// Name of the first tensor that holds a value that is not finite, or "". Waits for the device.
std::string first_nonfinite(const NamedTensors& tensors);

}  // namespace gantrain
