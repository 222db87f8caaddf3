// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "distributed/options.h"

namespace gantrain {

// What this rank adds to the sum over ranks: gradient / ranks, in half precision or, with kNone, in
// the gradient's own dtype. The division comes before the rounding, so that the sum over ranks does
// not overflow where the mean of the gradients does not.
at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks);

}  // namespace gantrain
