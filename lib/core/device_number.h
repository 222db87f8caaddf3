// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace gantrain {

// A number for operators that may change from iteration to iteration. Its value lies on the device,
// so that a step that was captured once goes on with the next iteration's value. A number that
// never changes is a plain number, its `constant`. Copies share their value.
class DeviceNumber {
 public:
  DeviceNumber(double constant = 0) : constant_(constant) {}  // NOLINT: a number is one
  // A number whose value is at(images_seen), at first at(0); its tensor has the type and device of
  // `like`.
  DeviceNumber(std::function<double(int64_t images_seen)> at, const at::TensorOptions& like);

  // Sets the value for an iteration before which so many images were seen; does nothing to a
  // constant. Nothing is copied between host and device.
  void move_to(int64_t images_seen);

  bool moves() const { return at_ != nullptr; }
  double host() const;  // the present value, known without waiting
  bool is_used() const { return moves() || constant_ != 0; }  // false for the constant 0
  // The value as a tensor [] on the device where moves(), else undefined.
  const at::Tensor& value() const { return on_device_; }
  // Returns factor * number * tensor.
  at::Tensor times(const at::Tensor& tensor, double factor = 1) const;
  // Returns from + (to - from) * number.
  at::Tensor lerp(const at::Tensor& from, const at::Tensor& to) const;

 private:
  bool is_for_host() const;

  std::function<double(int64_t)> at_;  // null for a constant
  double constant_ = 0;
  at::Tensor on_device_;  // []
  at::Tensor on_host_;    // float64 [] on the CPU, shared by copies
};

}  // namespace gantrain
