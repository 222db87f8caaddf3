// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace gantrain {

// A float64 number of each sample of a batch, kept on the batch's device, or one number for all
// samples that the host knows. It has the arithmetic of double, so that a formula written once for
// any type of number computes one sample's value with double and all samples' values with this.
// Numbers that the host knows are computed there; nothing is read from a device.
class SampleNumber {
 public:
  SampleNumber(double known = 0) : known_(known) {}               // NOLINT: a number is one
  explicit SampleNumber(const at::Tensor& each) : each_(each) {}  // [N] or [], float64

  bool is_known() const { return !each_.defined(); }
  double known() const { return known_; }
  const at::Tensor& each() const { return each_; }  // undefined if known

  friend SampleNumber operator-(const SampleNumber& a);
  friend SampleNumber operator+(const SampleNumber& a, const SampleNumber& b);
  friend SampleNumber operator-(const SampleNumber& a, const SampleNumber& b);
  friend SampleNumber operator*(const SampleNumber& a, const SampleNumber& b);
  friend SampleNumber operator/(const SampleNumber& a, const SampleNumber& b);
  friend SampleNumber abs(const SampleNumber& a);
  friend SampleNumber cos(const SampleNumber& a);
  friend SampleNumber exp2(const SampleNumber& a);
  friend SampleNumber floor(const SampleNumber& a);
  friend SampleNumber nearbyint(const SampleNumber& a);  // half-way cases to even
  friend SampleNumber sin(const SampleNumber& a);
  friend SampleNumber sqrt(const SampleNumber& a);

 private:
  at::Tensor each_;
  double known_ = 0;
};

double clamped_to_unit(double a);  // to [0, 1]
SampleNumber clamped_to_unit(const SampleNumber& a);

// Whether an event of that probability is known never to happen.
bool is_never(double probability);
bool is_never(const SampleNumber& probability);

// [samples, values.size()] float64 with one column for each of `values`, on the device of `like`.
at::Tensor as_columns(at::ArrayRef<SampleNumber> values, int64_t samples, const at::Tensor& like);

}  // namespace gantrain
