// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_values.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/torch.h"
#include "util/hash.h"

namespace gantrain {

Tensor StreamDraws::uniform(const std::string& name, at::IntArrayRef shape) {
  return gantrain::uniform(key_, "augment/" + name, samples_, shape);
}

Tensor StreamDraws::normal(const std::string& name, at::IntArrayRef shape) {
  return gantrain::normal(key_, "augment/" + name, samples_, shape);
}

uint64_t StreamDraws::purpose(const std::string& name) { return hash64("augment/" + name); }

std::unique_ptr<AugmentDraws> StreamDraws::whole_batch() const {
  if (samples_.stride == 1) return nullptr;
  return std::make_unique<StreamDraws>(key_, Samples{0, 1, samples_.stride * samples_.count});
}

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

namespace {

SampleNumber mapped(const SampleNumber& a,
                    double (*known)(double),
                    Tensor (Tensor::*each)() const) {
  return a.is_known() ? SampleNumber(known(a.known())) : SampleNumber((a.each().*each)());
}

}  // namespace

SampleNumber abs(const SampleNumber& a) { return mapped(a, std::abs, &Tensor::abs); }
SampleNumber cos(const SampleNumber& a) { return mapped(a, std::cos, &Tensor::cos); }
SampleNumber exp2(const SampleNumber& a) { return mapped(a, std::exp2, &Tensor::exp2); }
SampleNumber floor(const SampleNumber& a) { return mapped(a, std::floor, &Tensor::floor); }
SampleNumber nearbyint(const SampleNumber& a) { return mapped(a, std::nearbyint, &Tensor::round); }
SampleNumber sin(const SampleNumber& a) { return mapped(a, std::sin, &Tensor::sin); }
SampleNumber sqrt(const SampleNumber& a) { return mapped(a, std::sqrt, &Tensor::sqrt); }

SampleNumber clamped_to_unit(const SampleNumber& a) {
  return a.is_known() ? SampleNumber(clamped_to_unit(a.known()))
                      : SampleNumber(a.each().clamp(0, 1));
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

Tensor matrix_product(const Tensor& a, const Tensor& b, int64_t n) {
  const Tensor left = a.view({-1, n, n}), right = b.view({-1, n, n});
  // The library's product could round to 11 bits, where TF32 is allowed.
  Tensor sum = left.narrow(2, 0, 1) * right.narrow(1, 0, 1);
  for (int64_t k = 1; k < n; ++k) sum = sum + left.narrow(2, k, 1) * right.narrow(1, k, 1);
  return sum.view({-1, n * n});
}

namespace {

struct DrawnTensors {
  Tensor numbers;    // [N, transform.numbers]
  Tensor decisions;  // [N], uniform
};

template <class Number>
DrawnTensors tensors_for(const AugmentTransform<Number>& transform, AugmentDraws& draws) {
  const auto each = static_cast<int64_t>(transform.numbers);
  DrawnTensors drawn;
  drawn.numbers = transform.distribution == AugmentDistribution::kUniform
                      ? draws.uniform(transform.name, {each})
                      : draws.normal(transform.name, {each});
  drawn.decisions = draws.uniform(transform.name + "/on", {});
  return drawn;
}

}  // namespace

std::vector<NamedStep> possible(std::vector<NamedStep> steps) {
  steps.erase(
      std::remove_if(steps.begin(), steps.end(), [](const auto& s) { return s.is_never(); }),
      steps.end());
  return steps;
}

std::optional<Matrices> drawn_by_kernel(const std::vector<NamedStep>& steps,
                                        const SampleNumber& p,
                                        const AugmentDraws& draws,
                                        DrawnMatrices how) {
  const auto* stream = dynamic_cast<const StreamDraws*>(&draws);
  if (stream == nullptr || p.is_known() || !has_drawn_matrices(p.each())) return {};
  for (const auto& [name, step] : steps) {
    how.steps.push_back({step, StreamDraws::purpose(name), StreamDraws::purpose(name + "/on")});
  }
  how.key = stream->key();
  how.samples = stream->samples();
  return drawn_matrices(p.each(), how);
}

HostDrawn drawn_for(const AugmentTransform<double>& transform, AugmentDraws& draws) {
  const DrawnTensors tensors = tensors_for(transform, draws);
  HostDrawn drawn;
  const float* number = tensors.numbers.const_data_ptr<float>();
  drawn.number.assign(number, number + tensors.numbers.numel());
  const float* decision = tensors.decisions.const_data_ptr<float>();
  for (int64_t n = 0; n < tensors.decisions.numel(); ++n) {
    drawn.on.push_back(decision[n] < transform.probability);
  }
  return drawn;
}

DeviceDrawn drawn_for(const AugmentTransform<SampleNumber>& transform, AugmentDraws& draws) {
  const DrawnTensors tensors = tensors_for(transform, draws);
  DeviceDrawn drawn;
  const Tensor numbers = tensors.numbers.to(at::kDouble);
  for (int64_t i = 0; i < numbers.size(1); ++i) drawn.number.emplace_back(numbers.select(1, i));
  // In float64: a float32 tensor would take the probability, a tensor without axes, as float32.
  const Tensor decisions = tensors.decisions.to(at::kDouble);
  const SampleNumber& probability = transform.probability;
  drawn.on =
      probability.is_known() ? decisions < probability.known() : decisions < probability.each();
  return drawn;
}

Tensor copied_numbers(const double* numbers, size_t samples, size_t size) {
  const Tensor tensor =
      at::empty({static_cast<int64_t>(samples), static_cast<int64_t>(size)}, at::kDouble);
  std::copy(numbers, numbers + samples * size, tensor.data_ptr<double>());
  return tensor;
}

}  // namespace gantrain
