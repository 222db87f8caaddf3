// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "augment/augment_options.h"
#include "core/safetensors.h"

namespace gantrain {

// The strength p of the augmentation, steered by how sure D is of real pictures (Karras et al.
// 2020b, sec. 3): every `interval` iterations, p <- p + sign(r_t - target) * images / kimg, with
// r_t the mean sign of D's scores of real pictures and images those shown since the last move. p
// stays in [0, 1]: beyond 1 nothing would change but the way back (the official code has no cap).
// All of it stays on the device, and nothing waits for that but crossed_warning().
class AdaptiveStrength {
 public:
  // `batch`: images an iteration, all ranks together.
  AdaptiveStrength(const AdaptiveOptions& options, int64_t batch, at::Device device);

  // [] float64 on the device. It is always the same tensor.
  const at::Tensor& p() const { return p_; }
  void set(double p);

  // {sum of signs, count} of D's scores of real pictures, [2] of their type and device: what is
  // added up over calls, micro-batches and ranks, and then given to add().
  static at::Tensor signs(const at::Tensor& real_scores);

  // Adds `sums` [2] over all ranks, on the device, to the sums since p was last changed.
  void add(const at::Tensor& sums);
  // The sums since p was last changed, [2] float64. It is always the same tensor.
  const at::Tensor& signs() const { return signs_; }

  // Changes p where an interval ends. p stays where there were no scores since its last change, or
  // scores that are not finite.
  void end_iteration(int64_t iteration);

  // Returns p once, when it has reached .8, from where augmentations begin to leak into generated
  // pictures (sec. 2.2); otherwise nothing. Waits for the device.
  std::optional<double> crossed_warning();

  // "p" [], "signs" [2]: all that a resume needs, the tensors themselves.
  NamedTensors state() const { return {{"p", p_}, {"signs", signs_}}; }

 private:
  AdaptiveOptions options_;
  double step_;  // by which p changes
  at::Tensor p_, signs_;
  bool warned_ = false;
};

}  // namespace gantrain
