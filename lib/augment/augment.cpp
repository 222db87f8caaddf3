// SPDX-License-Identifier: Apache-2.0
#include "augment/augment.h"

#include <algorithm>

#include "core/device_reads.h"
#include "core/torch.h"
#include "ops/precision.h"

namespace gantrain {

at::Tensor augment(const at::Tensor& images,
                   const at::Tensor& p,
                   const AugmentOptions& options,
                   AugmentDraws& draws) {
  const bool exact_type = images.scalar_type() == at::kFloat || images.scalar_type() == at::kDouble;
  TORCH_CHECK(images.dim() == 4 && exact_type, "augment: images ", images.toString());
  TORCH_CHECK(p.dim() == 0 && p.scalar_type() == at::kDouble && p.device() == images.device(),
              "augment: p ",
              p.toString(),
              " for images ",
              images.toString());
  const bool host_knows_p = reads_are_free(p.device());
  if (host_knows_p) {
    TORCH_CHECK(read_free(p) >= 0, "augment: p ", read_free(p));
    if (read_free(p) == 0) return images;
  }
  check_augment(options, {images.size(3), images.size(2)}, images.size(1));
  const WithoutAutocast exact;
  at::Tensor x = images;
  for (const auto stage :
       {augment_geometry, augment_color, augment_filter, augment_noise, augment_cutout}) {
    x = stage(x, p, options, draws);
  }
  if (host_knows_p || x.is_same(images)) return x;
  return at::where(p > 0, x, images);
}

}  // namespace gantrain
