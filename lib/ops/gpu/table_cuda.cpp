// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/table_cuda.h"

extern "C" const gantrain::DeviceKernels* gantrain_cuda_kernels() {
  using namespace gantrain;
  static const FusedKernels fused{
      .half_types = true,
      .act = cuda_act,
      .act_gradient = cuda_act_gradient,
      .act_second = cuda_act_second,
      .plane_products = cuda_plane_products,
      .scaled_planes = cuda_scaled_planes,
      .minibatch_std = cuda_minibatch_std,
      .minibatch_std_gradient = cuda_minibatch_std_gradient,
      .pixel_norm = cuda_pixel_norm,
      .pixel_norm_gradient = cuda_pixel_norm_gradient,
      .adain = cuda_adain,
      .adain_gradient = cuda_adain_gradient,
      .filtered_lrelu = cuda_filtered_lrelu,
      .filtered_slopes = cuda_filtered_slopes,
  };
  static const DeviceKernels kernels{
      .upfirdn2d = cuda_upfirdn2d,
      .bias_act = cuda_bias_act,
      .bias_act_gradient = cuda_bias_act_gradient,
      .draw = cuda_draw,
      .fused = &fused,
  };
  return &kernels;
}
