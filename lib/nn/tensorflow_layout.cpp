// SPDX-License-Identifier: Apache-2.0
#include "nn/tensorflow_layout.h"

#include <algorithm>

#include "core/torch.h"

namespace gantrain {

using at::Tensor;

Tensor from_tensorflow(const Tensor& variable, TfLayout layout) {
  switch (layout) {
    case TfLayout::kSame:
      return variable;
    case TfLayout::kDense:
      return variable.t().contiguous();
    case TfLayout::kConv:
      return variable.permute({3, 2, 0, 1}).contiguous();
    case TfLayout::kMirroredConv:
      return variable.permute({3, 2, 0, 1}).flip({2, 3});
    case TfLayout::kTransposedConv:
      return variable.permute({2, 3, 0, 1}).flip({2, 3});
  }
  throw std::logic_error("no such layout");
}

Tensor to_tensorflow(const Tensor& parameter, TfLayout layout) {
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

namespace {

std::string with(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

}  // namespace

TensorMap from_official(const TensorMap& variables,
                        const std::string& prefix,
                        const std::string& new_prefix,
                        const LayoutOf& layout) {
  TensorMap parameters;
  for (const auto& [name, value] : variables) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    parameters[new_prefix + with(rest, '/', '.')] = from_tensorflow(value, layout(rest, value));
  }
  return parameters;
}

TensorMap to_official(const TensorMap& parameters,
                      const std::string& prefix,
                      const std::string& new_prefix,
                      const LayoutOf& layout) {
  TensorMap variables;
  for (const auto& [name, value] : parameters) {
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = with(name.substr(prefix.size()), '.', '/');
    variables[new_prefix + rest] = to_tensorflow(value, layout(rest, value));
  }
  return variables;
}

}  // namespace gantrain
