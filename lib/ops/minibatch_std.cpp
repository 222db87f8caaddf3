// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std.h"

#include <torch/torch.h>

#include <algorithm>

#include "ops/precision.h"

namespace gantrain {

using at::Tensor;

namespace {

int64_t divisor_up_to(int64_t most, int64_t n) {
  int64_t divisor = std::clamp<int64_t>(most, 1, n);
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

Tensor minibatch_std(const Tensor& x, int64_t group, int64_t channels) {
  constexpr double kEps = 1e-8;
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  TORCH_CHECK(group > 0 && n > 0, "minibatch_std: groups of ", group, " of ", n, " samples");
  const int64_t g = divisor_up_to(group, n);
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
