// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "distributed/options.h"

namespace gantrain {

// gradient / ranks in half precision: what goes over the wire. Divided before rounding, so that a
// sum over ranks does not overflow where the mean would not. kNone: in the gradient's own type.
at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks);

}  // namespace gantrain
