// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std.h"

#include <torch/torch.h>

#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

Tensor minibatch_std(const Tensor& x, int64_t group, int64_t channels) {
  constexpr double kEps = 1e-8;
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const int64_t g = std::min(group, n);
  TORCH_CHECK(g > 0 && n % g == 0, "minibatch_std: ", n, " samples are not groups of ", g);
  TORCH_CHECK(channels > 0 && c % channels == 0,
              "minibatch_std: ",
              c,
              " channels are not a multiple of ",
              channels);
  const WithoutAutocast exact;
  const Tensor y =
      x.to(statistics_type(x.scalar_type())).reshape({g, n / g, channels, c / channels, h, w});
  const Tensor variance = (y - y.mean(0)).square().mean(0);
  const Tensor deviation = (variance + kEps).sqrt().mean({2, 3, 4});  // [N / g, channels]
  const Tensor maps = deviation.to(x.scalar_type())
                          .repeat({g, 1})
                          .reshape({n, channels, 1, 1})
                          .expand({n, channels, h, w});
  return at::cat({x, maps}, 1);
}

}  // namespace gantrain
