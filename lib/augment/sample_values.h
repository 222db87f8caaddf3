// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "augment/augment_draws.h"
#include "augment/sample_number.h"
#include "core/device_reads.h"

namespace gantrain {

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

// One transform in one call of augment().
template <class Number>
struct AugmentTransform {
  std::string name;
  AugmentDistribution distribution = AugmentDistribution::kUniform;
  size_t numbers = 1;      // drawn for each sample
  Number probability = 0;  // with which it is applied to a sample
};

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
  void apply(const AugmentTransform<double>& transform,
             AugmentDraws& draws,
             Made&& made,
             Combine&& combine) {
    const HostDrawn drawn = drawn_for(transform, draws);
    each_.resize(drawn.on.size(), start_);
    for (size_t n = 0; n < each_.size(); ++n) {
      if (drawn.on[n]) each_[n] = combine(each_[n], made(&drawn.number[n * transform.numbers]));
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
