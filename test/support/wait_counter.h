// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace gantrain {

// Something that makes the host wait for a device, or that would if the tensor lay on a GPU.
struct Wait {
  std::string op;                    // "aten::item"
  at::ScalarType type = at::kFloat;  // of the tensor that was read or copied
};

// While it lives, notes every call of an operator, on any thread of the process, that hands a
// tensor's numbers to the host (item, is_nonzero, equal), whose result's size depends on them
// (nonzero, masked_select, masks as indices), that pins memory, or that copies between two devices.
// What such an operator calls itself is not noted, nor what a fused optimizer's CPU kernel reads of
// its own inputs: on a GPU that kernel reads them there. One at a time.
class WaitCounter {
 public:
  WaitCounter();
  ~WaitCounter();
  WaitCounter(const WaitCounter&) = delete;
  WaitCounter& operator=(const WaitCounter&) = delete;

  std::vector<Wait> seen() const;
  int64_t count() const { return static_cast<int64_t>(seen().size()); }

 private:
  uint64_t callback_;
};

// Whether numbers pass from the memory of one device into that of another in a copy between these.
// Tensors of device "meta", which LibTorch itself uses for shapes alone, have none.
bool are_apart(const at::Device& a, const at::Device& b);

// "aten::item float, aten::equal int": for messages of failed tests.
std::string text_of(const std::vector<Wait>& waits);

}  // namespace gantrain
