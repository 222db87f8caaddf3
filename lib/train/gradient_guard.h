// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/safetensors.h"
#include "train/loss_scaler.h"
#include "train/options.h"

namespace gantrain {

struct GuardSettings {
  std::optional<ScalerSettings> scaler;  // none: losses are not scaled
  double min_scale = 1;                  // of a dynamic scale
  OnNonfinite on_nonfinite = OnNonfinite::kSkip;
  int64_t limit = 50;  // steps in a row that may be left out
  OptimOptions optim;
};

// What came of one step's gradients.
struct GradientReport {
  bool finite = true;           // else the step is left out
  std::optional<double> scale;  // of the loss, in this step
  std::optional<double> norm;   // of all gradients together, before clipping; where that is asked
};

// Stands between a player's backward passes and its optimizer: scales the loss, unscales the
// gradients once, leaves out steps whose gradients are not finite, clips. Ranks come to one verdict
// because they see the same reduced gradients: an overflow on one of them is in the mean of all.
class GradientGuard {
 public:
  GradientGuard(const GuardSettings& settings, std::string player, at::Device device);

  // What to back-propagate instead of the loss.
  at::Tensor scaled(const at::Tensor& loss) const;
  // After the last reduction: unscales and clips the gradients of these parameters in place. Throws
  // UserError(kDiverged) naming the parameter that was the first not to be finite, where there have
  // been too many, the scale has come to its floor, or on_nonfinite says so. Waits for the device.
  GradientReport check(const NamedTensors& parameters);

  // What a resume needs, the tensors themselves: the scaler's, "skipped" (steps so far),
  // "in_a_row".
  NamedTensors state() const;

 private:
  void see_nonfinite(const std::string& parameter);
  void check_floor() const;
  double clip(std::vector<at::Tensor>& gradients) const;

  GuardSettings settings_;
  std::string player_;
  LossScaler scaler_;
  at::Tensor one_;                 // float32 [1]
  at::Tensor skipped_, in_a_row_;  // int64 [1]
  std::string first_;              // parameter that was not finite when the present row began
};

}  // namespace gantrain
