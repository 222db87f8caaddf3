// SPDX-License-Identifier: Apache-2.0
// The table of the CUDA library, and the glue of the operators whose NAME_cuda.h lays the arguments
// out.
#include "ops/gpu/table_cuda.h"

#include <ATen/ops/empty.h>

#include "ops/draws/draws_gpu.h"
#include "ops/filtered_lrelu/filtered_lrelu_cuda.h"
#include "ops/norms/norms_cuda.h"
#include "ops/upfirdn2d/upfirdn2d_cuda.h"

namespace gantrain {

using at::Tensor;

Tensor cuda_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  Tensor out = at::empty({how.samples.count, how.each},
                         how.key.options().dtype(whole ? at::kLong : at::kFloat));
  cuda_kernels::draw({.key = how.key.const_data_ptr<int64_t>(),
                      .phase = static_cast<uint64_t>(how.phase),
                      .purpose = how.purpose,
                      .first_sample = how.samples.first,
                      .sample_stride = how.samples.stride,
                      .samples = how.samples.count,
                      .each = how.each,
                      .kind = static_cast<cuda_kernels::Drawn>(how.distribution),
                      .out = out.mutable_data_ptr()},
                     current_stream(out));
  check_launch();
  return out;
}

namespace {

// Launches the kernel of a call, whose result is `out`.
template <class Arguments>
Tensor run(void (*kernel)(const Arguments&, cuda_kernels::Stream),
           const Arguments& arguments,
           const Tensor& out) {
  kernel(arguments, current_stream(out));
  check_launch();
  return out;
}

}  // namespace

Tensor cuda_upfirdn2d(const Tensor& x, const Tensor& f, const UpFirDn& how) {
  const UpFirDnCall call(x, f, how);
  return run(cuda_kernels::upfirdn2d, call.arguments, call.out);
}

Tensor cuda_upfirdn2d_added(const Tensor& x,
                            const Tensor& f,
                            const UpFirDn& how,
                            const Tensor& added) {
  UpFirDnCall call(x, f, how);
  const Tensor more = added.contiguous(call.out.suggest_memory_format());
  call.arguments.added = more.const_data_ptr();
  if (cuda_kernels::fir_choice(call.arguments).body == cuda_kernels::FirBody::kPixels)
    return run(cuda_kernels::upfirdn2d, call.arguments, call.out);
  call.arguments.added = nullptr;
  return run(cuda_kernels::upfirdn2d, call.arguments, call.out).add_(more);
}

std::tuple<Tensor, Tensor> cuda_filtered_lrelu(const Tensor& x,
                                               const Tensor& b,
                                               const FilteredLreluStep& step,
                                               bool with_slopes) {
  FilteredLreluCall call(x, b, step);
  if (with_slopes) call.write_slopes();
  return {run(cuda_kernels::filtered_lrelu, call.arguments, call.out), call.slopes};
}

Tensor cuda_filtered_slopes(const Tensor& x, const Tensor& slopes, const FilteredLreluStep& step) {
  FilteredLreluCall call(x, {}, step, slopes);
  call.read_slopes(step);
  return run(cuda_kernels::filtered_lrelu, call.arguments, call.out);
}

Tensor cuda_minibatch_std(const Tensor& x, int64_t g, int64_t channels, double eps) {
  return cuda_minibatch_std_gradient({}, x, g, channels, eps);
}

Tensor cuda_minibatch_std_gradient(
    const Tensor& dout, const Tensor& x, int64_t g, int64_t channels, double eps) {
  const MinibatchStdCall call(dout, x, {g, channels, eps});
  return run(cuda_kernels::minibatch_std, call.arguments, call.out);
}

Tensor cuda_pixel_norm(const Tensor& x, double eps) { return cuda_pixel_norm_gradient({}, x, eps); }

Tensor cuda_pixel_norm_gradient(const Tensor& dout, const Tensor& x, double eps) {
  const PixelNormCall call(dout, x, eps);
  return run(cuda_kernels::pixel_norm, call.arguments, call.maps.out);
}

std::tuple<Tensor, Tensor, Tensor> cuda_adain(const Tensor& x, const Tensor& style, double eps) {
  const AdainCall call({}, x, style, {}, eps);
  return {run(cuda_kernels::adain, call.arguments, call.maps.out), call.mean, call.inverse};
}

std::tuple<Tensor, Tensor> cuda_adain_gradient(const Tensor& dout,
                                               const Tensor& x,
                                               const Tensor& style,
                                               const Tensor& mean,
                                               const Tensor& inverse) {
  const AdainCall call(dout, x, style, {mean, inverse}, /*eps=*/0);
  return {run(cuda_kernels::adain, call.arguments, call.maps.out),
          call.style_gradient.to(style.scalar_type())};
}

}  // namespace gantrain

extern "C" const gantrain::DeviceKernels* gantrain_cuda_kernels() {
  using namespace gantrain;
  static const FusedKernels fused{
      .half_types = true,
      .act = OnItsDevice<cuda_act>::call,
      .act_gradient = OnItsDevice<cuda_act_gradient>::call,
      .act_second = OnItsDevice<cuda_act_second>::call,
      .act_added = OnItsDevice<cuda_act_added>::call,
      .act_scaled = OnItsDevice<cuda_act_scaled>::call,
      .act_scaled_gradient = OnItsDevice<cuda_act_scaled_gradient>::call,
      .plane_products = OnItsDevice<cuda_plane_products>::call,
      .scaled_planes = OnItsDevice<cuda_scaled_planes>::call,
      .minibatch_std = OnItsDevice<cuda_minibatch_std>::call,
      .minibatch_std_gradient = OnItsDevice<cuda_minibatch_std_gradient>::call,
      .pixel_norm = OnItsDevice<cuda_pixel_norm>::call,
      .pixel_norm_gradient = OnItsDevice<cuda_pixel_norm_gradient>::call,
      .adain = OnItsDevice<cuda_adain>::call,
      .adain_gradient = OnItsDevice<cuda_adain_gradient>::call,
      .filtered_lrelu = OnItsDevice<cuda_filtered_lrelu>::call,
      .filtered_slopes = OnItsDevice<cuda_filtered_slopes>::call,
      .upfirdn2d_added = OnItsDevice<cuda_upfirdn2d_added>::call,
      .affine_warp = OnItsDevice<cuda_affine_warp>::call,
      .affine_warp_adjoint = OnItsDevice<cuda_affine_warp_adjoint>::call,
      .drawn_matrices = OnItsDevice<cuda_drawn_matrices>::call,
  };
  static const DeviceKernels kernels{
      .upfirdn2d = OnItsDevice<cuda_upfirdn2d>::call,
      .bias_act = OnItsDevice<cuda_bias_act>::call,
      .bias_act_gradient = OnItsDevice<cuda_bias_act_gradient>::call,
      .draw = OnItsDevice<cuda_draw>::call,
      .fused = &fused,
  };
  return &kernels;
}

extern "C" const char* gantrain_cuda_interface() {
  static const std::string text = gantrain::device_interface(GANTRAIN_DEVICE_HEADERS);
  return text.c_str();
}
