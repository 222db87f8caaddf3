// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace gantrain {

// A number that may move from iteration to iteration, as operators use it: on the device, so that a
// step that was captured once goes on with the next iteration's value. A number that never moves
// stays a plain number. Copies share their value.
class DeviceNumber {
 public:
  DeviceNumber(double constant = 0) : constant_(constant) {}  // NOLINT: a number is one
  // The value is at(images_seen); the tensor has the type and device of `like`.
  DeviceNumber(std::function<double(int64_t images_seen)> at, const at::TensorOptions& like);

  // Before an iteration. Nothing is copied between host and device.
  void move_to(int64_t images_seen);

  bool moves() const { return at_ != nullptr; }
  double host() const;                                        // the present value
  bool is_used() const { return moves() || constant_ != 0; }  // not a constant 0
  // [], of a number that moves; undefined else.
  const at::Tensor& value() const { return on_device_; }
  // factor * number * tensor.
  at::Tensor times(const at::Tensor& tensor, double factor = 1) const;
  // from + (to - from) * number.
  at::Tensor lerp(const at::Tensor& from, const at::Tensor& to) const;

 private:
  bool is_for_host() const;

  std::function<double(int64_t)> at_;  // null: it never moves
  double constant_ = 0;
  at::Tensor on_device_;  // []
  at::Tensor on_host_;    // float64 [] on the CPU, shared by copies
};

}  // namespace gantrain
