// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms_cuda.h"

#include "ops/gpu/table_cuda.h"

namespace gantrain {

namespace {

at::Tensor run(const PixelNormCall& call) {
  cuda_kernels::pixel_norm(call.arguments, current_stream(call.maps.out));
  check_launch();
  return call.maps.out;
}

void run(const AdainCall& call) {
  cuda_kernels::adain(call.arguments, current_stream(call.maps.out));
  check_launch();
}

}  // namespace

at::Tensor cuda_pixel_norm(const at::Tensor& x, double eps) { return run({{}, x, eps}); }

at::Tensor cuda_pixel_norm_gradient(const at::Tensor& dout, const at::Tensor& x, double eps) {
  return run({dout, x, eps});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cuda_adain(const at::Tensor& x,
                                                          const at::Tensor& style,
                                                          double eps) {
  const AdainCall call({}, x, style, {}, eps);
  run(call);
  return {call.maps.out, call.mean, call.inverse};
}

std::tuple<at::Tensor, at::Tensor> cuda_adain_gradient(const at::Tensor& dout,
                                                       const at::Tensor& x,
                                                       const at::Tensor& style,
                                                       const at::Tensor& mean,
                                                       const at::Tensor& inverse) {
  const AdainCall call(dout, x, style, {mean, inverse}, /*eps=*/0);
  run(call);
  return {call.maps.out, call.style_gradient.to(style.scalar_type())};
}

}  // namespace gantrain
