// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_number.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/torch.h"

namespace gantrain {

using at::Tensor;

namespace {

bool is(const SampleNumber& a, double value) { return a.is_known() && a.known() == value; }

}  // namespace

SampleNumber operator-(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(-a.known()) : SampleNumber(a.each().neg());
}

// Matrices are mostly zeros and ones. What these leave alone needs no operator on the device.
SampleNumber operator+(const SampleNumber& a, const SampleNumber& b) {
  if (is(a, 0)) return b;
  if (is(b, 0)) return a;
  if (a.is_known() && b.is_known()) return a.known() + b.known();
  if (a.is_known()) return SampleNumber(b.each() + a.known());
  if (b.is_known()) return SampleNumber(a.each() + b.known());
  return SampleNumber(a.each() + b.each());
}

SampleNumber operator-(const SampleNumber& a, const SampleNumber& b) {
  if (is(b, 0)) return a;
  if (a.is_known() && b.is_known()) return a.known() - b.known();
  if (a.is_known()) return SampleNumber(at::rsub(b.each(), a.known()));
  if (b.is_known()) return SampleNumber(a.each() - b.known());
  return SampleNumber(a.each() - b.each());
}

SampleNumber operator*(const SampleNumber& a, const SampleNumber& b) {
  if (is(a, 0) || is(b, 0)) return 0;
  if (is(a, 1)) return b;
  if (is(b, 1)) return a;
  if (a.is_known() && b.is_known()) return a.known() * b.known();
  if (a.is_known()) return SampleNumber(b.each() * a.known());
  if (b.is_known()) return SampleNumber(a.each() * b.known());
  return SampleNumber(a.each() * b.each());
}

SampleNumber operator/(const SampleNumber& a, const SampleNumber& b) {
  if (is(a, 0)) return 0;
  if (a.is_known() && b.is_known()) return a.known() / b.known();
  if (a.is_known()) return a * SampleNumber(b.each().reciprocal());
  if (b.is_known()) return SampleNumber(a.each() / b.known());
  return SampleNumber(a.each() / b.each());
}

SampleNumber abs(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::abs(a.known())) : SampleNumber(a.each().abs());
}
SampleNumber cos(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::cos(a.known())) : SampleNumber(a.each().cos());
}
SampleNumber exp2(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::exp2(a.known())) : SampleNumber(a.each().exp2());
}
SampleNumber floor(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::floor(a.known())) : SampleNumber(a.each().floor());
}
SampleNumber nearbyint(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::nearbyint(a.known())) : SampleNumber(a.each().round());
}
SampleNumber sin(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::sin(a.known())) : SampleNumber(a.each().sin());
}
SampleNumber sqrt(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(std::sqrt(a.known())) : SampleNumber(a.each().sqrt());
}

double clamped_to_unit(double a) { return std::clamp(a, 0.0, 1.0); }
SampleNumber clamped_to_unit(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(clamped_to_unit(a.known()))
                      : SampleNumber(a.each().clamp(0, 1));
}

bool is_never(double probability) { return probability <= 0; }
bool is_never(const SampleNumber& probability) {
  return probability.is_known() && is_never(probability.known());
}

Tensor as_columns(at::ArrayRef<SampleNumber> values, int64_t samples, const Tensor& like) {
  std::map<double, Tensor> known;  // one tensor for all zeros, one for all ones
  std::vector<Tensor> columns;
  for (const SampleNumber& value : values) {
    if (!value.is_known()) {
      columns.push_back(value.each().expand({samples}));
      continue;
    }
    Tensor& column = known[value.known()];
    if (!column.defined()) {
      column = at::full({samples}, value.known(), like.options().dtype(at::kDouble));
    }
    columns.push_back(column);
  }
  return at::stack(columns, 1);
}

}  // namespace gantrain
