// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace gantrain {

// Returns the type that a convolution of x computes in: float32 at least where the forward pass
// asks for float32 (AutocastDisabled); else autocast's type, where autocast is on for x's device;
// else x's own type. Autocast leaves float64 as it is.
at::ScalarType convolution_type(const at::Tensor& x);

// Returns the type for sums and statistics over values of `type`: float32 for half types, else
// `type` itself.
at::ScalarType statistics_type(at::ScalarType type);

// While this object lives, autocast changes no types. Operators that have chosen their types
// themselves use it.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

}  // namespace gantrain
