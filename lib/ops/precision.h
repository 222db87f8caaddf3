// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace gantrain {

// The type a convolution of x runs in: float32 at least where a forward pass asks for that
// (AutocastDisabled), autocast's, where that is on for x's device, else x's own.
at::ScalarType convolution_type(const at::Tensor& x);

// float32 for half types, else the type itself: what sums and statistics are taken in.
at::ScalarType statistics_type(at::ScalarType type);

// While it lives, autocast changes no types: for operators that have chosen theirs.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

}  // namespace gantrain
