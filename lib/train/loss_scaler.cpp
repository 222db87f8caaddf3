// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scaler.h"

#include "core/device_reads.h"
#include "core/torch.h"

namespace gantrain {

LossScaler::LossScaler(const ScalerSettings& settings, at::Device device)
    : settings_(settings),
      scale_(torch::full({1}, settings.init, at::TensorOptions(device).dtype(at::kFloat))),
      tracker_(torch::zeros({1}, at::TensorOptions(device).dtype(at::kInt))) {}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return loss.to(at::kFloat) * scale_.squeeze(0);
}

at::Tensor LossScaler::unscale_(const std::vector<at::Tensor>& gradients) const {
  const torch::NoGradGuard no_grad;
  at::Tensor found = torch::zeros({1}, scale_.options());
  // In float64, then rounded, as GradScaler has it: exact for powers of two.
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::vector<at::Tensor> defined;
  for (const at::Tensor& g : gradients) {
    if (g.defined()) defined.push_back(g);
  }
  if (!defined.empty()) at::_amp_foreach_non_finite_check_and_unscale_(defined, found, inverse);
  return found.squeeze(0);
}

void LossScaler::update(const at::Tensor& found_nonfinite) {
  if (!settings_.dynamic) return;
  const torch::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_,
                         tracker_,
                         found_nonfinite.reshape({1}),
                         settings_.growth,
                         settings_.backoff,
                         settings_.interval);
}

NamedTensors LossScaler::state() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }

std::string first_nonfinite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) continue;
    const at::Tensor finite = tensor.isfinite().all();
    if (read_free(finite.cpu()) == 0) return name;
  }
  return "";
}

}  // namespace gantrain
