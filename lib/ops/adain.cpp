// SPDX-License-Identifier: Apache-2.0
#include "ops/adain.h"

#include <torch/torch.h>

#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

// In half precision 1e-8 is rounded to 0.
Tensor wide(const Tensor& x) { return x.to(statistics_type(x.scalar_type())); }

struct Centred {
  Tensor x;        // minus its mean
  Tensor inverse;  // of its standard deviation, [N, C, 1, 1]
};

Centred centre(const Tensor& x, double eps) {
  const Tensor centred = x - x.mean({2, 3}, /*keepdim=*/true);
  return {centred, (centred.square().mean({2, 3}, /*keepdim=*/true) + eps).rsqrt()};
}

struct Style {
  Tensor scale, shift;  // [N, C, 1, 1]
};

Style split_style(const Tensor& style, int64_t channels) {
  TORCH_CHECK(style.dim() == 2 && style.size(1) == 2 * channels,
              "a style for ",
              channels,
              " channels is [N, ",
              2 * channels,
              "], not ",
              style.sizes());
  const Tensor both = style.reshape({style.size(0), 2, channels, 1, 1});
  return {both.select(1, 0) + 1, both.select(1, 1)};
}

}  // namespace

Tensor instance_norm(const Tensor& x, double eps) {
  const WithoutAutocast exact;
  const Centred c = centre(wide(x), eps);
  return (c.x * c.inverse).to(x.scalar_type());
}

Tensor modulate(const Tensor& x, const Tensor& style) {
  const Style s = split_style(style, x.size(1));
  return at::addcmul(s.shift, x, s.scale);
}

Tensor adain(const Tensor& x, const Tensor& style, double eps) {
  const WithoutAutocast exact;
  const Style s = split_style(wide(style), x.size(1));
  const Centred c = centre(wide(x), eps);
  return at::addcmul(s.shift, c.x, c.inverse * s.scale).to(x.scalar_type());
}

}  // namespace gantrain
