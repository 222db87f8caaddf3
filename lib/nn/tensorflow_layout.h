// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>

namespace gantrain {

// How TensorFlow 1 networks store a variable, against torch's [O, I, k, k] and [out, in].
enum class TfLayout {
  kSame,            // biases, constants
  kDense,           // [in, out]
  kConv,            // [k, k, I, O]
  kMirroredConv,    // [k, k, I, O], both spatial axes reversed
  kTransposedConv,  // [k, k, O, I], both spatial axes reversed: fused up-sampling of PGGAN
};

at::Tensor from_tensorflow(const at::Tensor& variable, TfLayout layout);
at::Tensor to_tensorflow(const at::Tensor& parameter, TfLayout layout);

using TensorMap = std::map<std::string, at::Tensor>;
using LayoutOf = std::function<TfLayout(const std::string& variable, const at::Tensor& value)>;

// Variables whose names begin with `prefix`, as parameters: "G/4x4/Conv/weight" with prefix "G/"
// and new_prefix "" is "4x4.Conv.weight". `layout` is asked with the variable's name after the
// prefix. And the way back.
TensorMap from_official(const TensorMap& variables,
                        const std::string& prefix,
                        const std::string& new_prefix,
                        const LayoutOf& layout);
TensorMap to_official(const TensorMap& parameters,
                      const std::string& prefix,
                      const std::string& new_prefix,
                      const LayoutOf& layout);

}  // namespace gantrain
