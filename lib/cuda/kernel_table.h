// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/device_kernels.h"
#include "ops/fused_kernels.h"

namespace gantrain {

// The CUDA library's implementations of DeviceKernels, one file each.
at::Tensor cuda_draw(const DrawNumbers& how);
at::Tensor cuda_upfirdn2d(const at::Tensor& x, const at::Tensor& f, const UpFirDn& how);
at::Tensor cuda_bias_act(const at::Tensor& x, const at::Tensor& b, const BiasActNumbers& how);
BiasActGradients cuda_bias_act_gradient(const at::Tensor& dy,
                                        const at::Tensor& from,
                                        const at::Tensor& b,
                                        const BiasActNumbers& how,
                                        bool sum_to_bias);
at::Tensor cuda_bias_act_double_backward(const at::Tensor& v,
                                         const at::Tensor& dy,
                                         const at::Tensor& from,
                                         const at::Tensor& b,
                                         const BiasActNumbers& how);

// Those of FusedKernels.
at::Tensor cuda_act(const at::Tensor& y, const ActTensors& t, const ActNumbers& how);
ActDerivatives cuda_act_gradient(const ActPoint& at,
                                 const ActTensors& t,
                                 const ActNumbers& how,
                                 const ActWanted& wanted);
std::tuple<at::Tensor, at::Tensor, at::Tensor> cuda_act_second(
    const ActPoint& at,
    const ActTensors& t,
    const ActNumbers& how,
    const ActDerivatives& along,
    const FusedKernels::SecondWanted& wanted);
at::Tensor cuda_plane_products(const at::Tensor& a, const at::Tensor& b);
at::Tensor cuda_scaled_planes(const at::Tensor& w, const at::Tensor& by, double factor);
at::Tensor cuda_minibatch_std(const at::Tensor& x, int64_t g, int64_t channels, double eps);
at::Tensor cuda_minibatch_std_gradient(
    const at::Tensor& dout, const at::Tensor& x, int64_t g, int64_t channels, double eps);
at::Tensor cuda_pixel_norm(const at::Tensor& x, double eps);
at::Tensor cuda_pixel_norm_gradient(const at::Tensor& dout, const at::Tensor& x, double eps);
std::tuple<at::Tensor, at::Tensor, at::Tensor> cuda_adain(const at::Tensor& x,
                                                          const at::Tensor& style,
                                                          double eps);
std::tuple<at::Tensor, at::Tensor> cuda_adain_gradient(const at::Tensor& dout,
                                                       const at::Tensor& x,
                                                       const at::Tensor& style,
                                                       const at::Tensor& mean,
                                                       const at::Tensor& inverse);
std::tuple<at::Tensor, at::Tensor> cuda_filtered_lrelu(const at::Tensor& x,
                                                       const at::Tensor& b,
                                                       const FilteredLreluStep& step,
                                                       bool with_slopes);
at::Tensor cuda_filtered_slopes(const at::Tensor& x,
                                const at::Tensor& slopes,
                                const FilteredLreluStep& step);

}  // namespace gantrain
