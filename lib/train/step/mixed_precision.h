// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "core/forward_precision.h"
#include "core/tensor_files.h"
#include "gan/options.h"
#include "train/options.h"

namespace gantrain {

struct PlayerState;

// How a loss is scaled so that small gradients survive float16 (Micikevicius et al. 2018,
// sec. 3.2).
struct ScalerSettings {
  double init = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;  // good steps between two growths
  bool dynamic = true;      // false: the scale never changes
};

// The loss scale of one network, by PyTorch's rule: after a step with a gradient that is not finite
// the scale is multiplied by `backoff`; after `interval` good steps in a row it is multiplied by
// `growth`, unless that overflows. Scale and verdict stay on the device. Ranks agree because they
// see equal gradients.
class LossScaler {
 public:
  LossScaler(const ScalerSettings& settings, at::Device device);

  // Returns loss * scale, float32.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients by the scale, in place; undefined ones are skipped. Returns a float32
  // scalar: 1 if one of them was not finite, else 0.
  at::Tensor unscale_(const std::vector<at::Tensor>& gradients) const;
  // Updates the scale after a step; `found_nonfinite` is what unscale_() returned, 1 if the step
  // was left out.
  void update(const at::Tensor& found_nonfinite);

  const at::Tensor& current() const { return scale_; }  // float32 [1]
  // Begins or resumes training with the present content of state(), after so many steps were left
  // out. A scale that this scaler cannot have come to, as that of a session without one, begins
  // anew.
  void begin(int64_t left_out);
  // Returns "scale" and "growth_tracker", the tensors themselves.
  NamedTensors state() const;

 private:
  ScalerSettings settings_;
  at::Tensor scale_;    // float32 [1]
  at::Tensor tracker_;  // int32 [1]
};

struct GuardSettings {
  std::optional<ScalerSettings> scaler;  // none: losses are not scaled
  double min_scale = 1;                  // smallest dynamic scale
  NonfiniteOptions nonfinite;
  OptimOptions optim;
};

// Where x is infinite or not a number, bool: two operators, of which at::isfinite() takes four.
at::Tensor not_finite(const at::Tensor& x);

// What the guard found in the gradients of one step. The tensors lie on the device.
struct GradientVerdict {
  at::Tensor found;            // float32, one number: 1 if a gradient is not finite, else 0
  std::optional<bool> finite;  // known only where reading the device costs nothing
  at::Tensor scale;            // float32 [1]: the loss scale of this step; undefined without one
  at::Tensor norm;             // [] of all gradients, before clipping; undefined without clipping
};

// Stands between a player's backward passes and its optimizer. It scales the loss, unscales the
// gradients once, decides whether a step is left out because a gradient is not finite, and clips.
// All ranks come to the same verdict because they see the same reduced gradients: an overflow on
// one rank is part of the mean of all. Verdicts and counts stay on the device, and settle() acts on
// them at ticks; where reads cost nothing, judge() does so at once.
class GradientGuard {
 public:
  GradientGuard(const GuardSettings& settings, std::string player, at::Device device);

  // Begins or resumes training with the present content of state(). Steps that were left out before
  // are not reported again.
  void begin();
  // Returns the loss times its scale, which is to be back-propagated.
  at::Tensor scaled(const at::Tensor& loss) const;
  // Unscales and clips the gradients of these parameters in place, after the last reduction. Where
  // reads cost nothing it throws as settle() does.
  GradientVerdict judge(const NamedTensors& parameters);
  // Waits for the device and warns of steps left out since the last call. Throws
  // UserError(kDiverged) that names the first parameter that was not finite, where too many steps
  // were left out in a row, the loss scale has fallen to its minimum, or train.on_nonfinite is
  // "stop".
  void settle();

  // Returns what a resume needs, the tensors themselves: the scaler's, "skipped" (steps left out so
  // far) and "in_a_row".
  NamedTensors state() const;

 private:
  void look_at(const std::vector<at::Tensor>& gradients, GradientVerdict& verdict);
  at::Tensor wrong_parameters(const NamedTensors& parameters,
                              const std::vector<at::Tensor>& gradients);
  at::Tensor count(const at::Tensor& found, const at::Tensor& wrong);
  void report(const at::Tensor& index);
  void warn_or_stop(const std::string& what, int64_t in_a_row);
  double scale_now() const;
  void check_floor() const;
  at::Tensor clip(std::vector<at::Tensor>& gradients) const;

  GuardSettings settings_;
  std::string player_;
  bool reads_are_free_;
  LossScaler scaler_;
  at::Tensor one_;                 // float32 [1]
  at::Tensor skipped_, in_a_row_;  // int64 [1]
  std::string first_;              // parameter that was not finite at the present row's first step
  at::Tensor longest_row_;       // int64 [1]: longest row of steps left out since the last report()
  at::Tensor first_index_;       // int64 [1]: index of the parameter at the last row's first step
  int64_t settled_skipped_ = 0;  // skipped_ at the last report()
  std::vector<std::string> judged_;  // names of the parameters that judge() saw last
};

// Returns how the forward passes of a run compute on that device. Throws UserError(kUsage) that
// names an entry of precision.keep_float32 that is neither a network nor a block of these players.
ForwardPrecision forward_precision(const PrecisionOptions& options,
                                   at::Device device,
                                   const std::vector<PlayerState>& players);

// Returns how gradients are guarded in such a run: how losses are scaled, what happens where a
// gradient is not finite, and how gradients are clipped.
GuardSettings guard_settings(const PrecisionOptions& options,
                             const TrainOptions& train,
                             const OptimOptions& optim,
                             at::Device device);

// Returns a line for the log, as "bfloat16 by autocast" or "float16 in blocks, loss scale dynamic
// from 65536"; "" for float32.
std::string describe_precision(const PrecisionOptions& options, at::Device device);

// Says which algorithms LibTorch takes from now on, in the whole process. If deterministic, only
// those that give the same bits at every call; an operator that has none throws. Otherwise, on a
// GPU, the convolution that was the fastest for a shape when that shape first came. A rank calls
// this before its first computation on a GPU: cuBLAS takes its workspace, on which the bits depend,
// from the environment, which this sets unless the user has.
void choose_algorithms(bool deterministic);

}  // namespace gantrain
