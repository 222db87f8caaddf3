// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/penalties.h"

#include <torch/torch.h>

#include <cmath>

namespace gantrain::stylegan2 {

using at::Tensor;

Tensor path_lengths(const Tensor& pictures, const Tensor& ws, const Tensor& y) {
  const double pixels = static_cast<double>(pictures.size(2) * pictures.size(3));
  const Tensor sum = (pictures * (y / std::sqrt(pixels))).sum();
  const Tensor g =
      torch::autograd::grad({sum}, {ws}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  return g.square().sum(2).mean(1).sqrt();
}

}  // namespace gantrain::stylegan2
