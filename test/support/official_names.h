// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/torch.h"
#include "nn/progressive.h"

namespace gantrain {

// The inverse of from_tensorflow().
inline at::Tensor to_tensorflow(const at::Tensor& parameter, TfLayout layout) {
  switch (layout) {
    case TfLayout::kSame:
      return parameter;
    case TfLayout::kDense:
      return parameter.t().contiguous();
    case TfLayout::kConv:
      return parameter.permute({2, 3, 1, 0}).contiguous();
    case TfLayout::kMirroredConv:
      return parameter.flip({2, 3}).permute({2, 3, 1, 0}).contiguous();
    case TfLayout::kTransposedConv:
      return parameter.flip({2, 3}).permute({2, 3, 0, 1}).contiguous();
  }
  throw std::logic_error("no such layout");
}

// The inverse of from_official(): takes parameters whose names begin with `prefix`.
inline TensorMap to_official(const TensorMap& parameters,
                             const std::string& prefix,
                             const std::string& new_prefix,
                             const LayoutOf& layout) {
  TensorMap variables;
  for (const auto& [name, value] : parameters) {
    if (name.rfind(prefix, 0) != 0) continue;
    std::string rest = name.substr(prefix.size());
    std::replace(rest.begin(), rest.end(), '.', '/');
    variables[new_prefix + rest] = to_tensorflow(value, layout(rest, value));
  }
  return variables;
}

}  // namespace gantrain
