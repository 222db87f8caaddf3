// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_kernels.h"

#include <cmath>

#include "ops/cpu_fused.h"
#include "ops/device_kernels.h"
#include "ops/kernels.h"

namespace gantrain {

const FusedKernels kCpuFusedKernels{
    .act = cpu_act,
    .act_gradient = cpu_act_gradient,
    .act_second = cpu_act_second,
    .plane_products = cpu_plane_products,
    .scaled_planes = cpu_scaled_planes,
    .minibatch_std = cpu_minibatch_std,
    .minibatch_std_gradient = cpu_minibatch_std_gradient,
    .pixel_norm = cpu_pixel_norm,
    .pixel_norm_gradient = cpu_pixel_norm_gradient,
    .adain = cpu_adain,
    .adain_gradient = cpu_adain_gradient,
    .filtered_lrelu = cpu_filtered_lrelu,
    .filtered_slopes = cpu_filtered_slopes,
};

bool ActNumbers::constant_slope() const { return alpha == 1 && std::isinf(clamp); }

const FusedKernels* fused_kernels_for(const at::Tensor& x, at::ScalarType type) {
  const FusedKernels* kernels = device_kernels(x.device().type()).fused;
  if (kernels == nullptr || kernels_in_use() == KernelSet::kRef) return nullptr;
  const bool half = type == at::kHalf || type == at::kBFloat16;
  return type == at::kFloat || (half && kernels->half_types) ? kernels : nullptr;
}

const FusedKernels& fused_kernels_of(const at::Tensor& x) {
  const FusedKernels* kernels = device_kernels(x.device().type()).fused;
  TORCH_CHECK(kernels != nullptr, "no fused kernels for tensors on ", x.device());
  return *kernels;
}

}  // namespace gantrain
