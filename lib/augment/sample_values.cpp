// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_values.h"

#include <algorithm>

#include "core/torch.h"

namespace gantrain {

namespace {

struct DrawnTensors {
  at::Tensor numbers;    // [N, transform.numbers]
  at::Tensor decisions;  // [N], uniform
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
  const at::Tensor numbers = tensors.numbers.to(at::kDouble);
  for (int64_t i = 0; i < numbers.size(1); ++i) drawn.number.emplace_back(numbers.select(1, i));
  // In float64: a float32 tensor would take the probability, a tensor without axes, as float32.
  const at::Tensor decisions = tensors.decisions.to(at::kDouble);
  const SampleNumber& probability = transform.probability;
  drawn.on =
      probability.is_known() ? decisions < probability.known() : decisions < probability.each();
  return drawn;
}

at::Tensor copied_numbers(const double* numbers, size_t samples, size_t size) {
  const at::Tensor tensor =
      at::empty({static_cast<int64_t>(samples), static_cast<int64_t>(size)}, at::kDouble);
  std::copy(numbers, numbers + samples * size, tensor.data_ptr<double>());
  return tensor;
}

}  // namespace gantrain
