// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "inspect_content.h"

namespace gantrain {

// Describes each tensor: {"name", "dtype", "shape", "norm", "min", "max", "non_finite"}. Norm and
// bounds are of the finite values; null where there are none.
Json tensor_rows(const std::map<std::string, at::Tensor>& tensors);

// Sums these rows up by the part of the name before "/": {"part": {"tensors", "values",
// "non_finite"}}.
Json part_rows(const Json& rows);

// Compares two files: {"config": {key: [a, b]}, "missing": {"a": [names], "b": [names]}, "shape":
// {name: [a, b]}, "values": {name: {"max_abs", "relative"}}}. A key or tensor that both have alike
// is left out, but for "values", which counts the equal ones in "equal". "relative" is the norm of
// the difference by that of A's tensor; a difference that is not a number is null.
Json difference_of(const FileContent& a, const FileContent& b);

}  // namespace gantrain
