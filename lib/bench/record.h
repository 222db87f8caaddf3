// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <string>
#include <vector>

#include "config/value.h"

namespace gantrain {

// Sums over the calls of one operator with the same input shapes in one phase.
struct OperatorTime {
  std::string phase;
  std::string name;    // "aten::mul", "MulBackward0"
  std::string shapes;  // "8x64x32x32 64": of the tensors among its arguments; "cl" is channels-last
  bool backward = false;
  double calls = 0;
  double seconds = 0;  // self time: without the operators that it calls
};

// An argument of a recorded call: a tensor's form, or a value that is no tensor.
struct RecordedArgument {
  bool is_tensor = false;
  std::vector<int64_t> sizes, strides;
  at::ScalarType type = at::kFloat;
  c10::IValue value;
};

// The calls of one phase with the same arguments: convolutions and matrix products.
struct ProductCalls {
  std::string phase;
  std::string name, overload;  // of the operator's schema, "aten::mm" and "out"
  std::vector<RecordedArgument> arguments;
  std::string text;  // name and arguments in words
  double calls = 0;
};

// Records every operator that LibTorch runs in this process, on all threads, from construction to
// destruction. There can be one at a time.
class OperatorRecorder {
 public:
  OperatorRecorder();
  ~OperatorRecorder();
  OperatorRecorder(const OperatorRecorder&) = delete;
  OperatorRecorder& operator=(const OperatorRecorder&) = delete;

  // Names the phase of the calls that follow. Calls in the phase "" do not count.
  void enter(const std::string& phase);
  std::vector<OperatorTime> times() const;  // the longest first
  // Convolutions and matrix products, the outermost call of each.
  std::vector<ProductCalls> products() const;

 private:
  at::CallbackHandle callback_;
};

// Returns the floor of a training step: each of its convolutions and matrix products alone, on
// fresh tensors, with the threads that are set. A convolution, and each of the two gradients of its
// backward pass, is computed by every algorithm that there is here (LibTorch's, as a convolution or
// as another one's gradient, and gantrain's own) in the layouts contiguous and channels-last, and
// the shortest time counts. Depthwise convolutions do not count, because they are filters, which
// are limited by memory. Returns {"phases": {name: seconds in an iteration with all phases},
// "calls": [{"call", "calls", "seconds", "how"}]}, the longest first.
Json floor_of(const std::vector<ProductCalls>& calls);

}  // namespace gantrain
