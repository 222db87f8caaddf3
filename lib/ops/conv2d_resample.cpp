// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d_resample.h"

#include "core/torch.h"
#include "ops/autocast.h"
#include "ops/kernels.h"
#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

UpFirDn up_by(int64_t up, const Padding2d& padding, bool flip_filter) {
  return {{up, up}, {}, padding, flip_filter, static_cast<double>(up * up)};
}

UpFirDn down_by(int64_t down, const Padding2d& padding, bool flip_filter) {
  return {{}, {down, down}, padding, flip_filter};
}

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

// The pads that keep the FIRs centred, for both of them at once, added to the caller's.
Padding2d centred(const Padding2d& padding, const Tensor& f, int64_t up, int64_t down) {
  Padding2d p = padding;
  const int64_t fx = f.defined() ? f.size(-1) : 1, fy = f.defined() ? f.size(0) : 1;
  if (up > 1) {
    p.x0 += floor_half(fx + up - 1);
    p.x1 += floor_half(fx - up);
    p.y0 += floor_half(fy + up - 1);
    p.y1 += floor_half(fy - up);
  }
  if (down > 1) {
    p.x0 += floor_half(fx - down + 1);
    p.x1 += floor_half(fx - down);
    p.y0 += floor_half(fy - down + 1);
    p.y1 += floor_half(fy - down);
  }
  return p;
}

// Convolves without padding.
Tensor correlated(const Tensor& x, const Tensor& w, int64_t stride, int64_t groups) {
  return autocast_conv2d(x, w, {}, {stride, {0, 0}, groups});
}

// The adjoint of a convolution with stride `up`: zero insertion and convolution in one.
Tensor transposed(
    const Tensor& x, const Tensor& w, int64_t up, std::array<int64_t, 2> trim, int64_t groups) {
  const int64_t out = w.size(0) / groups, in = w.size(1), kh = w.size(2), kw = w.size(3);
  const Tensor swapped =
      w.reshape({groups, out, in, kh, kw}).transpose(1, 2).reshape({groups * in, out, kh, kw});
  return autocast_conv_transpose2d(x, swapped, {}, {up, trim, groups});
}

// A convolution with the kernel's pixels `up` apart; the FIR after it does the rest.
Tensor up_sampled(const Tensor& x,
                  const Tensor& w,  // as for a true convolution
                  const Tensor& f,
                  const ConvResample& how,
                  Padding2d p) {
  const int64_t kh = w.size(2), kw = w.size(3), up = how.up;
  p.x0 -= kw - 1;
  p.x1 -= kw - up;
  p.y0 -= kh - 1;
  p.y1 -= kh - up;
  // Crops that both sides share cost least inside the convolution.
  const int64_t tx = std::max<int64_t>(std::min(-p.x0, -p.x1), 0),
                ty = std::max<int64_t>(std::min(-p.y0, -p.y1), 0);
  const Tensor y = transposed(x, w, up, {ty, tx}, how.groups);
  UpFirDn fir{{}, {}, {p.x0 + tx, p.x1 + tx, p.y0 + ty, p.y1 + ty}, how.flip_filter};
  fir.gain = static_cast<double>(up * up);
  return upfirdn2d(y, f, fir);
}

// The definition of the whole operation, step by step.
Tensor plain(const Tensor& x,
             const Tensor& w,
             const Tensor& f,
             const ConvResample& how,
             const Padding2d& p) {
  const bool ups = how.up > 1;
  const Tensor padded = upfirdn2d(x, ups ? f : Tensor(), up_by(how.up, p, how.flip_filter));
  const Tensor y = correlated(padded, w, /*stride=*/1, how.groups);
  return how.down > 1 ? upfirdn2d(y, f, down_by(how.down, {}, how.flip_filter)) : y;
}

}  // namespace

Tensor conv2d_resample(const Tensor& x_in,
                       const Tensor& w_in,
                       const Tensor& f,
                       const ConvResample& how) {
  const at::ScalarType type = convolution_type(x_in);
  const WithoutAutocast exact;
  const Tensor x = x_in.to(type);
  const Padding2d p = centred(how.padding, f, how.up, how.down);
  const bool pointwise = w_in.size(2) == 1 && w_in.size(3) == 1;
  const bool transposing = kernels_in_use() != KernelSet::kRef && how.up > 1 && !pointwise;
  // The kernel as a transposed convolution needs it, or else as a correlation needs it.
  const bool flips = how.flip_weight == transposing && !pointwise;
  const Tensor w = (flips ? w_in.flip({2, 3}) : w_in).to(type);
  if (transposing) {
    const Tensor y = up_sampled(x, w, f, how, p);
    return how.down > 1 ? upfirdn2d(y, f, down_by(how.down, {}, how.flip_filter)) : y;
  }
  if (kernels_in_use() == KernelSet::kRef) return plain(x, w, f, how, p);

  if (pointwise && how.down > 1 && how.up == 1) {
    const Tensor small = upfirdn2d(x, f, down_by(how.down, p, how.flip_filter));
    return correlated(small, w, /*stride=*/1, how.groups);
  }
  if (pointwise && how.up > 1 && how.down == 1) {
    const Tensor y = correlated(x, w, /*stride=*/1, how.groups);
    return upfirdn2d(y, f, up_by(how.up, p, how.flip_filter));
  }
  if (how.down > 1 && how.up == 1) {
    const Tensor blurred = upfirdn2d(x, f, {{}, {}, p, how.flip_filter});
    return correlated(blurred, w, how.down, how.groups);
  }
  if (p.x0 == p.x1 && p.y0 == p.y1 && p.x0 >= 0 && p.y0 >= 0)
    return autocast_conv2d(x, w, {}, {1, {p.y0, p.x0}, how.groups});
  return plain(x, w, f, how, p);
}

}  // namespace gantrain
