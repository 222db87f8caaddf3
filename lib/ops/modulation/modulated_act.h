// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/bias_act/bias_act.h"

namespace gantrain {

// The terms around a convolution's result x [N, C, H, W]. Undefined tensors are left out.
struct ModulatedAct {
  at::Tensor d;         // [N, C]: a factor of each sample's channel (demodulation)
  at::Tensor noise;     // [H, W], [1, 1, H, W] or [N, 1, H, W]
  at::Tensor strength;  // of the noise: [] or [C]; undefined: 1
  at::Tensor bias;      // [C]
  double scale = 1;     // a constant factor of x
};

// Returns clamp(gain * act(x * scale * d + strength * noise + bias)): the epilogue of a modulated
// convolution (Karras et al. 2020a, fig. 2c) or, with a scale and a bias alone, of a layer with
// equalised learning rate. Where the device has a kernel for x's type (linear, relu or lrelu;
// float32 on a CPU, half types too on a GPU), it is one pass forward and one backward; so is its
// second derivative. Otherwise it is composed.
at::Tensor modulated_act(const at::Tensor& x, const ModulatedAct& terms, const BiasAct& how);

// Whether modulated_act() of a convolution of x is one pass, so that `scale` costs nothing, and the
// convolution's sums without the scale stay in the type's range.
bool scale_is_free(const at::Tensor& x);

// Returns x [N, C, H, W] times s [N, C]: the modulation before the convolution. Derivatives of both
// come from one pass.
at::Tensor channels_scaled(const at::Tensor& x, const at::Tensor& s);

}  // namespace gantrain
