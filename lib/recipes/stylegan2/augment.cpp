// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/augment.h"

#include <torch/torch.h>

#include <algorithm>

namespace gantrain::stylegan2 {

at::Tensor augment(const at::Tensor& images,
                   double p,
                   const AugmentOptions& options,
                   Draws& draws) {
  TORCH_CHECK(p >= 0 && images.dim() == 4, "augment: p ", p, ", images ", images.sizes());
  if (p == 0) return images;
  check_augment(options, std::min(images.size(2), images.size(3)), images.size(1));
  at::Tensor x = images;
  for (const auto stage :
       {augment_geometry, augment_color, augment_filter, augment_noise, augment_cutout}) {
    x = stage(x, p, options, draws);
  }
  return x;
}

}  // namespace gantrain::stylegan2
