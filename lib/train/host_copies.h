// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <tuple>
#include <vector>

namespace gantrain {

// Copies of tensors in host memory, which is used again by the next copies: it is page-locked for
// tensors of a GPU, and warm after the first time.
class HostCopies {
 public:
  // Begins to copy anew. Copies that were made before are overwritten.
  void begin();
  // Returns a contiguous copy in host memory, whose values are there once finish() has returned. A
  // tensor whose elements were copied since begin() is not copied twice.
  at::Tensor copy(const at::Tensor& tensor);
  // Waits for the devices that were copied from.
  void finish();

 private:
  using Elements = std::tuple<const void*, std::vector<int64_t>, std::vector<int64_t>, int>;

  std::vector<at::Tensor> memory_;
  size_t used_ = 0;  // of memory_, since begin()
  std::map<Elements, at::Tensor> copied_;
  std::vector<at::Device> devices_;
};

}  // namespace gantrain
