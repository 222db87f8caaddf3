// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "gan/synthesis_options.h"

namespace gantrain {

// A style-based generator whose pictures can be moved by moving what its synthesis starts from
// (Karras et al. 2021, sec. 3.1). A Generator may also be one of these.
struct MovableInput {
  virtual ~MovableInput() = default;
  // Whether the input can be rotated and scaled too, and not only translated.
  virtual bool rotates() const = 0;
  // Returns the pictures of layers' latents ws [N, num_ws, w_dim] with a moved input. `inverse`,
  // [3, 3] or [N, 3, 3], maps positions in the picture that is made to positions in the picture
  // that would be made without it; in homogeneous coordinates, unit: the picture's width, origin in
  // its middle, x to the right, y down.
  virtual at::Tensor synthesize_moved(const at::Tensor& ws,
                                      const at::Tensor& inverse,
                                      const SynthesisOptions& options) = 0;
};

}  // namespace gantrain
