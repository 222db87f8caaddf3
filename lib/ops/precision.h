// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/product_choice.h"

namespace gantrain {

// Returns the type that a convolution of x computes in: float32 at least where the forward pass
// asks for float32 (AutocastDisabled); else autocast's type, where autocast is on for x's device;
// else x's own type. Autocast leaves float64 as it is.
at::ScalarType convolution_type(const at::Tensor& x);

// The types of one convolution or matrix product.
struct ProductTypes {
  at::ScalarType operands;
  at::ScalarType result;
  const char* why = nullptr;  // for note_computed()
};

// Returns the types that this product of x and weight computes in. Without a choice by product
// (ForwardPrecision::choice) both are convolution_type(x). With one, operands of float32 on a CPU
// may be rounded to bfloat16, and the result is float32 again.
ProductTypes product_types(const Product& product, const at::Tensor& x, const at::Tensor& weight);

// Returns the type for sums and statistics over values of `type`: float32 for half types, else
// `type` itself.
at::ScalarType statistics_type(at::ScalarType type);

// While this object lives, autocast changes no types. Operators that have chosen their types
// themselves use it.
struct WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

}  // namespace gantrain
