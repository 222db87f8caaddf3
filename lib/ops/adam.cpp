// SPDX-License-Identifier: Apache-2.0
#include "ops/adam.h"

#include <torch/torch.h>

namespace gantrain {

void adam_step_(std::vector<at::Tensor>& parameters,
                std::vector<at::Tensor>& gradients,
                std::vector<at::Tensor>& first_moments,
                std::vector<at::Tensor>& second_moments,
                std::vector<at::Tensor>& steps,
                const AdamSettings& s) {
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adam_(parameters,
                   gradients,
                   first_moments,
                   second_moments,
                   /*max_exp_avg_sqs=*/{},
                   steps,
                   s.lr,
                   s.beta1,
                   s.beta2,
                   /*weight_decay=*/0,
                   s.eps,
                   /*amsgrad=*/false,
                   /*maximize=*/false);
}

void lerp_(std::vector<at::Tensor>& averages,
           const std::vector<at::Tensor>& values,
           double weight) {
  if (!averages.empty()) at::_foreach_lerp_(averages, values, weight);
}

}  // namespace gantrain
