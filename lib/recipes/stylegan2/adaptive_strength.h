// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/safetensors.h"
#include "recipes/stylegan2/augment_options.h"

namespace gantrain::stylegan2 {

// The strength p of the augmentation, steered by how sure D is of real pictures (Karras et al.
// 2020b, sec. 3): every `interval` iterations, p <- p + sign(r_t - target) * images / kimg, with
// r_t the mean sign of D's scores of real pictures and images those shown since the last move. p
// stays in [0, 1]: beyond 1 nothing would change but the way back (the official code has no cap).
class AdaptiveStrength {
 public:
  // `batch`: images an iteration, all ranks together. Sums are kept on `device`.
  AdaptiveStrength(const AdaptiveOptions& options, int64_t batch, at::Device device);

  double p() const;

  // {sum of signs, count} of D's scores of real pictures, [2] of their type and device: what is
  // added up over calls, micro-batches and ranks, and then given to end_iteration().
  static at::Tensor signs(const at::Tensor& real_scores);

  // `sums` [2]: the iteration's, all ranks together. Moves p where an interval ends, which is the
  // only time that the device is waited for. Without scores since the last move, or with scores
  // that are no numbers, p stays.
  void end_iteration(int64_t iteration, const at::Tensor& sums);

  // True once, when p has come to .8: augmentations begin to leak into generated pictures (sec.
  // 2.2).
  bool should_warn();

  // "p" [], "signs" [2]: all that a resume needs, the tensors themselves.
  NamedTensors state() const { return {{"p", p_}, {"signs", signs_}}; }

 private:
  AdaptiveOptions options_;
  double step_;           // of p
  at::Tensor p_, signs_;  // p on the CPU: it is the host that draws
  bool warned_ = false;
};

}  // namespace gantrain::stylegan2
