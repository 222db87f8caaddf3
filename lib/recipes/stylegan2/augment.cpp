// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/augment.h"

#include <torch/torch.h>

#include <algorithm>

#include "ops/precision.h"

namespace gantrain::stylegan2 {

at::Tensor augment(const at::Tensor& images,
                   double p,
                   const AugmentOptions& options,
                   Draws& draws) {
  const bool exact_type = images.scalar_type() == at::kFloat || images.scalar_type() == at::kDouble;
  TORCH_CHECK(p >= 0 && images.dim() == 4 && exact_type, "augment: p ", p, ", ", images.toString());
  if (p == 0) return images;
  check_augment(options, std::min(images.size(2), images.size(3)), images.size(1));
  const WithoutAutocast exact;
  at::Tensor x = images;
  for (const auto stage :
       {augment_geometry, augment_color, augment_filter, augment_noise, augment_cutout}) {
    x = stage(x, p, options, draws);
  }
  return x;
}

}  // namespace gantrain::stylegan2
