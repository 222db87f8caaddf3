// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/modulation/modulated_act.h"

namespace gantrain {

struct ModulatedConv {
  int64_t up = 1, down = 1;
  int64_t padding = 0;
  bool demodulate = true;
  bool flip_weight = true;  // as in ConvResample
  bool fused = true;        // one grouped convolution with a weight per sample; same numbers
};

// A convolution whose weights differ from sample to sample (Karras et al. 2020a, eq. 1-3): each
// input channel of the weight is scaled by the sample's style, and with `demodulate` each output
// channel of the weight is then scaled to unit norm. x [N, I, H, W], weight [O, I, k, k], styles
// [N, I] float32. noise, broadcastable to the output or undefined, is added after demodulation. f
// is the resampling filter.
at::Tensor modulated_conv2d(const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& styles,
                            const at::Tensor& noise,
                            const at::Tensor& f,
                            const ModulatedConv& how);

// The same and what follows it in a layer: modulated_act() of the convolution's result, with the
// terms `after`. Their d and scale are for this function to fill in: leave them as they are.
at::Tensor modulated_layer(const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& styles,
                           const at::Tensor& f,
                           const ModulatedConv& how,
                           const ModulatedAct& after,
                           const BiasAct& act);

// The sums of squares over the last two axes of w [O, I, h, w]: [O, I]. Differentiable any number
// of times; w is read once forward and once backward where the device has a kernel for it.
at::Tensor square_sums(const at::Tensor& w);

}  // namespace gantrain
