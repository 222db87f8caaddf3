// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/device.h"

namespace gantrain {

struct AdamSettings {
  double lr, beta1, beta2, eps;
  at::Tensor lr_on_device = {};  // float32 [], used instead of lr where it is defined
};

// Makes one step of Adam (Kingma & Ba 2015, alg. 1) on all parameters in place, in one pass over
// their memory. `steps` holds one float32 scalar tensor for each parameter, which counts its steps;
// the call first raises each by one. `found` is undefined, or one float32 number on the device: 1
// where a gradient is not finite, else 0. Where it is 1, parameters, moments and counts stay as
// they are, and the program does not wait for a device to read it. On a CPU no bit depends on the
// number of threads.
void adam_step_(std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& settings,
                const at::Tensor& found = {});

// Moves every tensor of `averages` in place towards the one at the same index of `values`: average
// <- average + (value - average) * weight. Both lists have the same length and shapes. It computes
// the running average of weights (EMA), on a CPU in one pass over their memory.
void lerp_(std::vector<at::Tensor>& averages,
           const std::vector<at::Tensor>& values,
           const DeviceNumber& weight);

// Whether no number is infinite or NaN. Reads float32 tensors on the CPU once, without a copy;
// returns nothing for other tensors.
std::optional<bool> all_finite(const std::vector<at::Tensor>& tensors);

// A range of the numbers of one tensor, in the order in which they lie in memory.
struct FlatPiece {
  size_t tensor;   // index in the list
  int64_t offset;  // of its first number in that tensor
  int64_t count;
  int64_t before;  // numbers of all pieces before this one
};

// A list of tensors as one row of numbers, cut into pieces. The cuts depend on the sizes of the
// tensors alone, so that a sum of sums of pieces does not depend on the number of threads.
class FlatPieces {
 public:
  explicit FlatPieces(const std::vector<at::Tensor>& tensors);

  // Calls `work` for each piece, with the threads of LibTorch. Every thread gets about as many
  // numbers as the others, from one stretch of the row.
  void for_each(const std::function<void(const FlatPiece& piece)>& work) const;
  size_t size() const { return pieces_.size(); }

 private:
  std::vector<FlatPiece> pieces_;
  int64_t numbers_ = 0;  // of all pieces
};

// Whether float32 kernels can read the tensors' memory in order: float32, on the CPU, without gaps
// or overlaps.
bool are_flat(const std::vector<at::Tensor>& tensors);

// Whether two lists have the same sizes and the same order of numbers in memory, tensor by tensor.
bool have_equal_layout(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace gantrain
