// SPDX-License-Identifier: Apache-2.0
#include "ops/precision.h"

#include <ATen/autocast_mode.h>

#include "core/forward_precision.h"

namespace gantrain {

at::ScalarType convolution_type(const at::Tensor& x) {
  if (in_float32()) return statistics_type(x.scalar_type());
  const c10::DeviceType device = x.device().type();
  // As in LibTorch, autocast leaves float64 as it is.
  const bool lowered = at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return lowered ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

at::ScalarType statistics_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

}  // namespace gantrain
