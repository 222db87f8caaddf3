// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench_record.h"

namespace gantrain {

// A convolution y = x * w, or one of its gradients. All forms of it that LibTorch records are one
// of these three: a transposed convolution, for example, is the input's gradient.
struct ConvolutionForm {
  enum class Direction { kForward, kInputGradient, kWeightGradient };

  Direction direction = Direction::kForward;
  std::vector<int64_t> x, w, y;  // [N, I, H, W], [O, I / groups, kh, kw], [N, O, h, w]
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  at::ScalarType type = at::kFloat;

  bool is_depthwise() const { return groups > 1 && w[1] == 1; }
  std::string text() const;
};

// Returns the convolutions that a recorded call computes: none for a matrix product, two for a
// backward pass with both gradients.
std::vector<ConvolutionForm> convolutions_of(const ProductCalls& call);

// How a computation was fastest when it ran alone.
struct Fastest {
  double seconds = 0;
  std::string how;  // "LibTorch, channels-last"
};
Fastest fastest_of(const ConvolutionForm& form);

// Returns the median seconds of several runs after one that warms up; or the seconds of the first,
// if it takes longer than `hopeless`.
double seconds_alone(const std::function<void()>& run,
                     double hopeless = std::numeric_limits<double>::infinity());

}  // namespace gantrain
