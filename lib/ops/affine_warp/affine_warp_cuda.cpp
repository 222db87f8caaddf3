// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/affine_warp/affine_warp_gpu.h"
#include "ops/gpu/table_cuda.h"

namespace gantrain {

using at::Tensor;

namespace {

using Kernel = void (*)(const cuda_kernels::AffineWarpArguments&, cuda_kernels::Stream);

// The kernel's result for pictures of that size.
Tensor warped(Kernel kernel,
              const Tensor& given,
              const AffineWarp& how,
              const Size2d& picture,
              const Size2d& result) {
  const Tensor in = given.contiguous();
  const Tensor transforms = how.transforms.contiguous(), margins = how.margins.contiguous();
  Tensor out = at::empty({in.size(0), in.size(1), result.y, result.x},
                         in.options().memory_format(at::MemoryFormat::Contiguous));
  cuda_kernels::AffineWarpArguments arguments{.type = kernel_type(in),
                                              .samples = in.size(0),
                                              .channels = in.size(1),
                                              .height = static_cast<int>(picture.y),
                                              .width = static_cast<int>(picture.x),
                                              .filter = {},
                                              .transforms = transforms.const_data_ptr<double>(),
                                              .margins = margins.const_data_ptr<double>(),
                                              .in = in.const_data_ptr(),
                                              .out = out.mutable_data_ptr()};
  std::copy(how.filter.begin(), how.filter.end(), arguments.filter);
  kernel(arguments, current_stream(out));
  check_launch();
  return out;
}

constexpr int64_t kLarger = AffineWarp::kTaps;

}  // namespace

Tensor cuda_affine_warp(const Tensor& x, const AffineWarp& how) {
  const Size2d picture{x.size(3), x.size(2)};
  return warped(cuda_kernels::affine_warp,
                x,
                how,
                picture,
                {2 * picture.x + kLarger, 2 * picture.y + kLarger});
}

Tensor cuda_affine_warp_adjoint(const Tensor& dy, const AffineWarp& how) {
  const Size2d picture{(dy.size(3) - kLarger) / 2, (dy.size(2) - kLarger) / 2};
  return warped(cuda_kernels::affine_warp_adjoint, dy, how, picture, picture);
}

}  // namespace gantrain
