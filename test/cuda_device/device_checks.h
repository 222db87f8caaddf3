// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace gantrain {

// Returns the first visible GPU, on a stream of which the calling thread computes from then on, or
// nothing, after saying why, where there is none or no CUDA library. All tests of the program begin
// with one of these calls, because the library must be loaded before LibTorch is called.
std::optional<c10::Device> gpu_or_skip();

// The same, but the CPU where the environment has GANTRAIN_TEST_DEVICE=cpu: to see on any machine
// that the comparisons themselves hold.
std::optional<c10::Device> device_or_skip();

// How the feature maps of a call lie in memory: whole, or every second column of a wider tensor.
enum class Layout { kContiguous, kChannelsLast, kStrided };

// The types and layouts that operators are tried in.
struct Form {
  at::ScalarType type;
  Layout layout;
};
std::vector<Form> all_forms();
std::string text_of(const Form& form);

// One call of an operator.
struct OperatorCall {
  // By which it is differentiated: float64 on the CPU. The first `maps` get the form's type and
  // layout; those after them are float32, as weights are.
  std::vector<at::Tensor> inputs;
  size_t maps = 1;
  // The operator. It brings what else it needs to the device of the first input, and to its type
  // where that is float64.
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> f;
};

// Returns the largest difference of the operator's result and its first and second derivatives on
// `device` from those of the composed operators in float64 on the CPU, for the same rounded inputs,
// divided by the largest number of each tensor, or by the size that such a sum usually has.
double largest_error(const OperatorCall& call, const Form& form, at::Device device);

// What that may be: `roundings` of the type at the largest number.
double allowed_error(at::ScalarType type, double roundings);

// Random whole numbers for shapes; the same in every run.
class Shapes {
 public:
  explicit Shapes(uint32_t seed) : random_(seed) {}
  int64_t between(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  // [N, C, H, W] of a few thousand numbers at most; C is a multiple of 8 in half of the cases.
  std::vector<int64_t> maps() {
    const int64_t channels = between(0, 1) == 0 ? 8 * between(1, 4) : between(1, 17);
    return {between(1, 4), channels, between(1, 13), between(1, 13)};
  }

 private:
  std::mt19937 random_;
};

}  // namespace gantrain
