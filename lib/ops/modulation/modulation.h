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

// added + modulated_act(x, terms, how), for an `added` like x: where the device has a kernel for
// it, in the same pass. Derivatives of any order exist.
at::Tensor modulated_act_beside(const at::Tensor& added,
                                const at::Tensor& x,
                                const ModulatedAct& terms,
                                const BiasAct& how);

// Feature maps on their way into a modulated convolution.
struct StyledMaps {
  at::Tensor x;       // [N, C, H, W]; may be undefined where `scaled` is not
  at::Tensor scaled;  // x times `styles`; undefined: that is left to the convolution
  at::Tensor
      styles;  // [N, C]: the convolution's styles. With `scaled`, as styles_for() returned them
};

// Which convolution comes next. Without styles: none that is modulated.
struct NextConv {
  at::Tensor styles;    // [N, C], C being the result's channels
  at::ScalarType type;  // that it computes in
  bool keep_x;          // whether the result is needed without the styles, too
};

// The styles of a convolution with demodulation that computes in `type`. In float16 each sample's
// are divided by the largest of them, which cancels in the demodulation.
at::Tensor styles_for(at::ScalarType type, const at::Tensor& styles);

// modulated_act() for the convolution that comes next. Where the device has a kernel for it, the
// result is multiplied by that one's styles in the same pass, backward too; elsewhere that is left
// to the convolution. Derivatives of higher orders are those of the two steps.
StyledMaps modulated_act_for(const at::Tensor& x,
                             const ModulatedAct& terms,
                             const BiasAct& how,
                             const NextConv& next);

// Whether modulated_act() of a convolution of x is one pass, so that `scale` costs nothing, and the
// convolution's sums without the scale stay in the type's range.
bool scale_is_free(const at::Tensor& x);

// Returns x [N, C, H, W] times s [N, C]: the modulation before the convolution. Derivatives of both
// come from one pass.
at::Tensor channels_scaled(const at::Tensor& x, const at::Tensor& s);

struct ModulatedConv {
  int64_t up = 1, down = 1;
  int64_t padding = 0;
  bool demodulate = true;
  bool flip_weight = true;  // as in ConvResample
  bool fused = true;        // one grouped convolution with a weight per sample; same numbers
};

// A convolution whose weights differ from sample to sample (Karras et al. 2020a, eq. 1-3), and what
// follows it in a layer. Each input channel of the weight is scaled by the sample's style, and with
// `demodulate` each output channel of the weight is then scaled to unit norm. x [N, I, H, W],
// weight [O, I, k, k], styles [N, I] float32; f is the resampling filter. The result goes through
// modulated_act() with the terms `after`, whose d and scale are for this function to fill in: leave
// them as they are.
at::Tensor modulated_layer(const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& styles,
                           const at::Tensor& f,
                           const ModulatedConv& how,
                           const ModulatedAct& after,
                           const BiasAct& act);

// The same between two modulated convolutions: in.styles are this one's, and the result's are those
// of the next.
StyledMaps modulated_layer(const StyledMaps& in,
                           const at::Tensor& weight,
                           const at::Tensor& f,
                           const ModulatedConv& how,
                           const ModulatedAct& after,
                           const BiasAct& act,
                           const NextConv& next);

// y[n] = w[n] x[n] for the maps x [N, I, H, W], each pixel a column, and w [N, O, I] of x's type: a
// convolution with a kernel of one pixel for each sample. y [N, O, H, W] lies in planes, also where
// x is channels-last. Differentiable any number of times; the derivative by x lies as x does.
at::Tensor sample_products(const at::Tensor& x, const at::Tensor& w);

// The sums of squares over the last two axes of w [O, I, h, w]: [O, I]. Differentiable any number
// of times; w is read once forward and once backward where the device has a kernel for it.
at::Tensor square_sums(const at::Tensor& w);

}  // namespace gantrain
