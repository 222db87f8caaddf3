// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>

namespace gantrain {

// How TensorFlow 1 networks store a variable that torch stores as [O, I, k, k] or [out, in].
enum class TfLayout {
  kSame,            // biases, constants
  kDense,           // [in, out]
  kConv,            // [k, k, I, O]
  kMirroredConv,    // [k, k, I, O], both spatial axes reversed
  kTransposedConv,  // [k, k, O, I], both spatial axes reversed: PGGAN's fused up-sampling
};

at::Tensor from_tensorflow(const at::Tensor& variable, TfLayout layout);
at::Tensor to_tensorflow(const at::Tensor& parameter, TfLayout layout);

using TensorMap = std::map<std::string, at::Tensor>;
using LayoutOf = std::function<TfLayout(const std::string& variable, const at::Tensor& value)>;

// from_official() turns the variables whose names begin with `prefix` into parameters: with prefix
// "G/" and new_prefix "", "G/4x4/Conv/weight" becomes "4x4.Conv.weight". `layout` gets the part of
// the variable's name after the prefix. to_official() is the inverse: it takes parameters whose
// names begin with `prefix`.
TensorMap from_official(const TensorMap& variables,
                        const std::string& prefix,
                        const std::string& new_prefix,
                        const LayoutOf& layout);
TensorMap to_official(const TensorMap& parameters,
                      const std::string& prefix,
                      const std::string& new_prefix,
                      const LayoutOf& layout);

}  // namespace gantrain
