// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/fused_kernels.h"

namespace gantrain {

// The functions of kCpuFusedKernels, which share lib/cpu_kernels' loops out among threads.

at::Tensor cpu_act(const at::Tensor& y, const ActTensors& t, const ActNumbers& how);
ActDerivatives cpu_act_gradient(const ActPoint& at,
                                const ActTensors& t,
                                const ActNumbers& how,
                                const ActWanted& wanted);
std::tuple<at::Tensor, at::Tensor, at::Tensor> cpu_act_second(
    const ActPoint& at,
    const ActTensors& t,
    const ActNumbers& how,
    const ActDerivatives& along,
    const FusedKernels::SecondWanted& wanted);
at::Tensor cpu_plane_products(const at::Tensor& a, const at::Tensor& b);
at::Tensor cpu_scaled_planes(const at::Tensor& w, const at::Tensor& by, double factor);

at::Tensor cpu_minibatch_std(const at::Tensor& x, int64_t g, int64_t channels, double eps);
at::Tensor cpu_minibatch_std_gradient(
    const at::Tensor& dout, const at::Tensor& x, int64_t g, int64_t channels, double eps);
at::Tensor cpu_pixel_norm(const at::Tensor& x, double eps);
at::Tensor cpu_pixel_norm_gradient(const at::Tensor& dout, const at::Tensor& x, double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> cpu_adain(const at::Tensor& x,
                                                         const at::Tensor& style,
                                                         double eps);
std::tuple<at::Tensor, at::Tensor> cpu_adain_gradient(const at::Tensor& dout,
                                                      const at::Tensor& x,
                                                      const at::Tensor& style,
                                                      const at::Tensor& mean,
                                                      const at::Tensor& inverse);
std::tuple<at::Tensor, at::Tensor> cpu_filtered_lrelu(const at::Tensor& x,
                                                      const at::Tensor& b,
                                                      const FilteredLreluStep& step,
                                                      bool with_slopes);
at::Tensor cpu_filtered_slopes(const at::Tensor& x,
                               const at::Tensor& slopes,
                               const FilteredLreluStep& step);

}  // namespace gantrain
