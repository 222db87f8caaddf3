// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "train/loss_scaler.h"
#include "train/options.h"

namespace gantrain {

struct GuardSettings {
  std::optional<ScalerSettings> scaler;  // none: losses are not scaled
  double min_scale = 1;                  // of a dynamic scale
  NonfiniteOptions nonfinite;
  OptimOptions optim;
};

// What came of one step's gradients. The tensors lie on the device.
struct GradientVerdict {
  at::Tensor found;            // float32 [1]: above 0 if a gradient is not finite
  std::optional<bool> finite;  // the same, known only where reading the device costs nothing
  at::Tensor scale;            // float32 [1]: of the loss in this step; undefined without a scale
  at::Tensor norm;  // [] of all gradients together, before clipping; undefined where nobody clips
};

// Stands between a player's backward passes and its optimizer: scales the loss, unscales the
// gradients once, says which steps are to be left out because gradients are not finite, clips.
// Ranks come to one verdict because they see the same reduced gradients: an overflow on one of them
// is in the mean of all. On a device whose reads wait, the verdict stays there and its consequences
// are drawn at ticks, by settle().
class GradientGuard {
 public:
  GradientGuard(const GuardSettings& settings, std::string player, at::Device device);

  // Training begins, or goes on, with what state() holds now: steps that were left out before do
  // not count as news.
  void begin();
  // What to back-propagate instead of the loss.
  at::Tensor scaled(const at::Tensor& loss) const;
  // After the last reduction: unscales and clips the gradients of these parameters in place. Where
  // reads are free it throws as settle() does.
  GradientVerdict judge(const NamedTensors& parameters);
  // Waits for the device. Warns of steps left out since the last call; throws UserError(kDiverged)
  // naming the parameter that was the first not to be finite, where there have been too many, the
  // scale has come to its floor, or train.on_nonfinite says so.
  void settle();

  // What a resume needs, the tensors themselves: the scaler's, "skipped" (steps so far),
  // "in_a_row".
  NamedTensors state() const;

 private:
  void count_on_host(const std::string& parameter);
  void count_on_device(const at::Tensor& found,
                       const NamedTensors& parameters,
                       const std::vector<at::Tensor>& gradients);
  void draw_consequences(const std::string& parameter, int64_t in_a_row);
  double scale_now() const;
  void check_floor() const;
  at::Tensor clip(std::vector<at::Tensor>& gradients) const;

  GuardSettings settings_;
  std::string player_;
  bool reads_are_free_;
  LossScaler scaler_;
  at::Tensor one_;                 // float32 [1]
  at::Tensor skipped_, in_a_row_;  // int64 [1]
  std::string first_;              // parameter that was not finite when the present row began
  // On a device whose reads wait, since the last settle():
  at::Tensor longest_row_;       // int64 [1]: most steps left out in a row
  at::Tensor first_index_;       // int64 [1]: parameter that was not finite when the last row began
  int64_t settled_skipped_ = 0;  // skipped_ then
  std::vector<std::string> judged_;  // names of the parameters that judge() saw last
};

}  // namespace gantrain
