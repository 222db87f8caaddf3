// SPDX-License-Identifier: Apache-2.0
#include "ops/adam.h"

#include <cmath>

#include "core/device_reads.h"
#include "core/torch.h"
#include "cpu_kernels/kernels.h"
#include "ops/flat_pieces.h"

namespace gantrain {

namespace {

// The numbers of step t, as the paper's sec. 2 has them at its end: the corrections of both moments
// as one factor of the rate, and eps with them.
AdamNumbers numbers_of(const AdamSettings& s, double t) {
  const double root = std::sqrt(1 - std::pow(s.beta2, t));
  return {s.beta1, s.beta2, s.lr * root / (1 - std::pow(s.beta1, t)), s.eps * root};
}

// Returns the gradients with each one's numbers in the order of its parameter's: LibTorch's fused
// kernels, too, read memory in order and look at no strides. Only one that came in another order is
// copied.
std::vector<at::Tensor> laid_out_like(const std::vector<at::Tensor>& parameters,
                                      const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& g = gradients[i];
    all.push_back(have_equal_layout({parameters[i]}, {g}) ? g
                                                          : at::empty_like(parameters[i]).copy_(g));
  }
  return all;
}

void adam_step_on_cpu_(const std::vector<at::Tensor>& parameters,
                       const std::vector<at::Tensor>& gradients,
                       const std::vector<at::Tensor>& first_moments,
                       const std::vector<at::Tensor>& second_moments,
                       const std::vector<at::Tensor>& steps,
                       const AdamSettings& s) {
  std::vector<AdamNumbers> numbers;
  std::vector<AdamArrays> arrays;
  for (size_t i = 0; i < parameters.size(); ++i) {
    numbers.push_back(numbers_of(s, read_free(steps[i].add_(1))));
    arrays.push_back({parameters[i].mutable_data_ptr<float>(),
                      gradients[i].const_data_ptr<float>(),
                      first_moments[i].mutable_data_ptr<float>(),
                      second_moments[i].mutable_data_ptr<float>()});
    parameters[i].unsafeGetTensorImpl()->bump_version();  // as every operator in place does
  }
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(parameters).for_each([&](const FlatPiece& piece, size_t /*index*/) {
    AdamArrays at = arrays[piece.tensor];
    at.parameter += piece.offset;
    at.gradient += piece.offset;
    at.first_moment += piece.offset;
    at.second_moment += piece.offset;
    kernels.adam(at, piece.count, numbers[piece.tensor]);
  });
}

void lerp_on_cpu_(const std::vector<at::Tensor>& averages,
                  const std::vector<at::Tensor>& values,
                  double weight) {
  std::vector<float*> to;
  std::vector<const float*> from;
  for (size_t i = 0; i < averages.size(); ++i) {
    to.push_back(averages[i].mutable_data_ptr<float>());
    from.push_back(values[i].const_data_ptr<float>());
    averages[i].unsafeGetTensorImpl()->bump_version();
  }
  const UpdateKernels& kernels = cpu_kernels().update;
  FlatPieces(averages).for_each([&](const FlatPiece& piece, size_t /*index*/) {
    kernels.lerp(
        to[piece.tensor] + piece.offset, from[piece.tensor] + piece.offset, piece.count, weight);
  });
}

}  // namespace

void adam_step_(std::vector<at::Tensor>& parameters,
                const std::vector<at::Tensor>& given_gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& s,
                const at::Tensor& found) {
  if (parameters.empty()) return;
  const std::vector<at::Tensor> gradients = laid_out_like(parameters, given_gradients);
  if (!s.lr_on_device.defined() && are_flat(parameters) && are_flat(gradients) &&
      are_flat(first_moments) && are_flat(second_moments) &&
      have_equal_layout(parameters, first_moments) &&
      have_equal_layout(parameters, second_moments)) {
    const bool left_out = found.defined() && read_free(found) != 0;
    if (left_out) return;
    adam_step_on_cpu_(parameters, gradients, first_moments, second_moments, steps, s);
    return;
  }
  if (found.defined()) {
    at::_foreach_add_(steps, (found.reshape({}) == 0).to(steps.front().scalar_type()));
  } else {
    at::_foreach_add_(steps, 1);
  }
  const auto found_inf = found.defined() ? std::optional<at::Tensor>(found) : std::nullopt;
  const auto fused = [&](const auto& lr) {
    at::_fused_adam_(parameters,
                     gradients,
                     first_moments,
                     second_moments,
                     /*max_exp_avg_sqs=*/{},
                     steps,
                     lr,
                     s.beta1,
                     s.beta2,
                     /*weight_decay=*/0,
                     s.eps,
                     /*amsgrad=*/false,
                     /*maximize=*/false,
                     /*grad_scale=*/std::nullopt,
                     found_inf);
  };
  if (s.lr_on_device.defined()) {
    fused(s.lr_on_device);
  } else {
    fused(s.lr);
  }
}

void lerp_(std::vector<at::Tensor>& averages,
           const std::vector<at::Tensor>& values,
           const DeviceNumber& weight) {
  if (averages.empty()) return;
  if (!weight.moves() || reads_are_free(averages.front().device())) {
    if (are_flat(averages) && are_flat(values) && have_equal_layout(averages, values)) {
      lerp_on_cpu_(averages, values, weight.host());
      return;
    }
    at::_foreach_lerp_(averages, values, weight.host());
    return;
  }
  std::vector<at::Tensor> steps = at::_foreach_sub(values, averages);
  at::_foreach_mul_(steps, weight.value());
  at::_foreach_add_(averages, steps);
}

}  // namespace gantrain
