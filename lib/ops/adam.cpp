// SPDX-License-Identifier: Apache-2.0
#include "ops/adam.h"

#include <torch/torch.h>

#include "core/device_reads.h"

namespace gantrain {

void adam_step_(std::vector<at::Tensor>& parameters,
                std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& s,
                const at::Tensor& found) {
  if (parameters.empty()) return;
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
    at::_foreach_lerp_(averages, values, weight.host());
    return;
  }
  std::vector<at::Tensor> steps = at::_foreach_sub(values, averages);
  at::_foreach_mul_(steps, weight.value());
  at::_foreach_add_(averages, steps);
}

}  // namespace gantrain
