// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device.h"
#include "ops/drawn_matrices/drawn_matrices.h"
#include "ops/draws/draws.h"

namespace gantrain {

// All random numbers of one call of augment(). Every use has a name, asked for once a call in the
// order in which the transforms are applied: a transform's parameter ("xflip"), then what decides
// where it is applied ("xflip/on", uniform). The order is app. B's; rotation is asked for twice
// ("rotate/before" and "rotate/after" the anisotropic scaling), noise has a field of its own after
// its decision ("noise/field"), cutout's decision comes before its centre.
class AugmentDraws {
 public:
  virtual ~AugmentDraws() = default;
  // Draw float32 [N, shape...] on the images' device: uniform in [0, 1), or N(0, 1).
  virtual at::Tensor uniform(const std::string& name, at::IntArrayRef shape) = 0;
  virtual at::Tensor normal(const std::string& name, at::IntArrayRef shape) = 0;
  // Returns the draws of the whole global batch, of which this object draws a share; null if it
  // draws all.
  virtual std::unique_ptr<AugmentDraws> whole_batch() const { return nullptr; }
};

// Counter-based: the draws "augment/NAME" of the key, by global sample. So a sample's numbers
// depend neither on the rank count nor on which other transforms are on. Calls in one iteration
// that must differ (real, generated pictures) take keys of different phases. Nothing waits for the
// device.
class StreamDraws final : public AugmentDraws {
 public:
  StreamDraws(const DrawKey& key, const Samples& samples) : key_(key), samples_(samples) {}

  at::Tensor uniform(const std::string& name, at::IntArrayRef shape) override;
  at::Tensor normal(const std::string& name, at::IntArrayRef shape) override;
  // Assumes equal strided shares: sample n of the global batch belongs to share n mod W.
  std::unique_ptr<AugmentDraws> whole_batch() const override;

  const DrawKey& key() const { return key_; }
  const Samples& samples() const { return samples_; }
  // The hash of the purpose of these draws.
  static uint64_t purpose(const std::string& name);

 private:
  DrawKey key_;
  Samples samples_;
};

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

SampleNumber clamped_to_unit(const SampleNumber& a);  // to [0, 1]

// [samples, values.size()] float64 with one column for each of `values`, on the device of `like`.
at::Tensor as_columns(at::ArrayRef<SampleNumber> values, int64_t samples, const at::Tensor& like);

// Homogeneous transforms, row by row: of the plane (n = 3), of RGB (n = 4). Number is double, for
// one sample, or SampleNumber, for all samples at once.
template <class Number, size_t n>
using SampleMatrix = std::array<Number, n * n>;

template <size_t n>
SampleMatrix<double, n> identity_matrix() {
  SampleMatrix<double, n> m{};
  for (size_t i = 0; i < n; ++i) m[i * n + i] = 1;
  return m;
}

template <size_t n, class Number>
std::array<Number, n * n> matrix_product(const std::array<Number, n * n>& a,
                                         const std::array<Number, n * n>& b) {
  std::array<Number, n * n> m{};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t k = 0; k < n; ++k) m[i * n + j] = m[i * n + j] + a[i * n + k] * b[k * n + j];
    }
  }
  return m;
}

// a, b [N, n * n] -> [N, n * n], the product of each sample's matrices, with sums in the order of
// the product above. On any device; nothing is read.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b, int64_t n);
template <size_t n>
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  return matrix_product(a, b, static_cast<int64_t>(n));
}

// The parameters of augmentations are computed in one of two ways by the same formulas. Where
// reading is free (on a CPU) the host computes with double, sample by sample. Elsewhere operators
// on the device compute with SampleNumber, all samples at once, and nothing is read.

// Returns f(p) with p [] float64 as a double or as a SampleNumber: the only place that chooses.
template <class F>
at::Tensor with_strength(const at::Tensor& p, F&& f) {
  if (reads_are_free(p.device())) return f(read_free(p));
  return f(SampleNumber(p));
}

enum class AugmentDistribution { kUniform, kNormal };

// A transform whose parameters make a matrix (ops/drawn_matrices/matrix_step.h).
struct NamedStep {
  std::string name;
  MatrixStep step;

  // Whether it is known never to happen.
  bool is_never() const { return step.multiplier <= 0; }
};

// One transform in one call of augment().
template <class Number>
struct AugmentTransform {
  std::string name;
  AugmentDistribution distribution = AugmentDistribution::kUniform;
  size_t numbers = 1;      // drawn for each sample
  Number probability = 0;  // with which it is applied to a sample
};

template <class Number>
AugmentTransform<Number> transform_of(const NamedStep& named, const Number& p) {
  const auto numbers = static_cast<size_t>(drawn_numbers(named.step.kind));
  return {
      named.name,
      draws_normal(named.step.kind) ? AugmentDistribution::kNormal : AugmentDistribution::kUniform,
      numbers,
      probability_of(named.step, p)};
}

// Those steps that may happen.
std::vector<NamedStep> possible(std::vector<NamedStep> steps);

// What drawn_matrices() makes of these steps; nothing where `draws` are of another kind, or p's
// device has no kernel for them. Sets `how`'s steps, key and samples.
std::optional<Matrices> drawn_by_kernel(const std::vector<NamedStep>& steps,
                                        const SampleNumber& p,
                                        const AugmentDraws& draws,
                                        DrawnMatrices how);

// What was drawn for it on the host: whether it is applied to sample n, whose numbers begin at
// number[n * transform.numbers].
struct HostDrawn {
  std::vector<double> number;
  std::vector<bool> on;
};
HostDrawn drawn_for(const AugmentTransform<double>& transform, AugmentDraws& draws);

// What was drawn for a transform, on a device.
struct DeviceDrawn {
  std::vector<SampleNumber> number;
  at::Tensor on;  // [N] bool
};
DeviceDrawn drawn_for(const AugmentTransform<SampleNumber>& transform, AugmentDraws& draws);

// A few numbers of each sample (a matrix, gains), the same for all samples at the start and then
// changed by transforms. Empty until a transform has been drawn.
template <class Number, size_t size>
class SampleValues;

template <size_t size>
class SampleValues<double, size> {
 public:
  using Values = std::array<double, size>;
  explicit SampleValues(const Values& start) : start_(start) {}
  explicit SampleValues(std::vector<Values> each) : start_{}, each_(std::move(each)) {}

  // values <- combine(values, made(drawn numbers)) for the samples that the transform is applied
  // to.
  template <class Made, class Combine>
  void apply(const AugmentTransform<double>& what,
             AugmentDraws& draws,
             Made&& made,
             Combine&& combine) {
    const HostDrawn drawn = drawn_for(what, draws);
    each_.resize(drawn.on.size(), start_);
    for (size_t n = 0; n < each_.size(); ++n) {
      if (drawn.on[n]) each_[n] = combine(each_[n], made(&drawn.number[n * what.numbers]));
    }
  }

  // Returns other numbers, computed from each sample's numbers.
  template <size_t other, class F>
  SampleValues<double, other> map(F&& f) const {
    std::vector<std::array<double, other>> mapped;
    for (const Values& values : each_) mapped.push_back(f(values));
    return SampleValues<double, other>(std::move(mapped));
  }

  bool empty() const { return each_.empty(); }
  int64_t samples() const { return static_cast<int64_t>(each_.size()); }
  const std::vector<Values>& each() const { return each_; }
  at::Tensor tensor() const;  // [N, size] float64

 private:
  Values start_;
  std::vector<Values> each_;
};

template <size_t size>
class SampleValues<SampleNumber, size> {
 public:
  using Values = std::array<SampleNumber, size>;
  explicit SampleValues(const std::array<double, size>& start) : start_(start) {}
  explicit SampleValues(const at::Tensor& each) : start_{}, each_(each) {}

  template <class Made, class Combine>
  void apply(const AugmentTransform<SampleNumber>& transform,
             AugmentDraws& draws,
             Made&& made,
             Combine&& combine) {
    const DeviceDrawn drawn = drawn_for(transform, draws);
    if (!each_.defined()) {
      Values start;
      for (size_t i = 0; i < size; ++i) start[i] = start_[i];
      each_ = as_columns(start, drawn.on.size(0), drawn.on);
    }
    const Values values = made(drawn.number.data());
    const at::Tensor applied = combine(each_, as_columns(values, drawn.on.size(0), drawn.on));
    each_ = applied.where(drawn.on.unsqueeze(1), each_);
  }

  template <size_t other, class F>
  SampleValues<SampleNumber, other> map(F&& f) const {
    if (empty()) return SampleValues<SampleNumber, other>(at::Tensor());
    Values values;
    for (size_t i = 0; i < size; ++i) {
      values[i] = SampleNumber(each_.select(1, static_cast<int64_t>(i)));
    }
    const std::array<SampleNumber, other> mapped = f(values);
    return SampleValues<SampleNumber, other>(as_columns(mapped, each_.size(0), each_));
  }

  bool empty() const { return !each_.defined(); }
  int64_t samples() const { return empty() ? 0 : each_.size(0); }
  const at::Tensor& tensor() const { return each_; }  // [N, size] float64

 private:
  std::array<double, size> start_;
  at::Tensor each_;
};

// [samples, size] float64 on the CPU, a copy of samples * size numbers.
at::Tensor copied_numbers(const double* numbers, size_t samples, size_t size);

template <size_t size>
at::Tensor SampleValues<double, size>::tensor() const {
  return copied_numbers(each_.data()->data(), each_.size(), size);
}

}  // namespace gantrain
