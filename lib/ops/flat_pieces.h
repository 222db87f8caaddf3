// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace gantrain {

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
  void for_each(const std::function<void(const FlatPiece& piece, size_t index)>& work) const;
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
