// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "augment/augment_options.h"
#include "augment/diff_augment.h"
#include "augment/sample_values.h"
#include "core/device.h"
#include "core/tensor_files.h"
#include "ops/draws/draws.h"
#include "util/size.h"

namespace gantrain {

// Applies each transform to each sample of `images` [N, C, H, W], float32 or float64, about [-1,
// 1], with probability multiplier * p (Karras et al. 2020b, sec. 2 and app. B): pixel blits and
// general geometric transforms in one resampling, colour, image filter, noise, cutout. p, []
// float64 on the images' device, is not negative; above 1 is as 1; at 0 the result equals `images`.
// Any number of derivatives with respect to the images. Autocast changes no type. Colour acts on
// the first three channels, on the first of one or two (no hue, no saturation), on none of more
// than 4; alpha, the channel after them, takes part in all but colour. Throws UserError(kUsage) as
// check_augment does.
//
// Nothing waits for the device. On a CPU the host computes matrices and strengths and mirrors the
// pictures only as far as they are seen; p = 0 draws nothing and returns `images` themselves. On
// other devices everything is computed there, p = 0 or not: by kernels that draw all matrices and
// that sample from the picture itself (ops/drawn_matrices, ops/affine_warp), where a float32
// picture of 256 x 256 RGB needs 3 MB while it is resampled; by operators elsewhere, which mirror
// the pictures as far as can be, 28 MB. The numbers are the same up to rounding.
using Augmenting = at::Tensor(const at::Tensor& images,
                              const at::Tensor& p,
                              const AugmentOptions& options,
                              AugmentDraws& draws);
Augmenting augment;

// The stages of augment() in their order; p > 0. A stage whose multipliers are all 0 returns its
// input.
Augmenting augment_geometry, augment_color, augment_filter, augment_noise, augment_cutout;

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

// The calls of the augmentation in one iteration: of a phase's generated and of its real pictures.
inline int64_t fakes_of(int64_t phase) { return 2 * phase; }
inline int64_t reals_of(int64_t phase) { return 2 * phase + 1; }

// The augmentation of all pictures that a discriminator sees: none; with its strength, adaptive or
// fixed, as AdaOptions say (Karras et al. 2020b); or DiffAugment, as AugmentChoice says.
class Ada {
 public:
  // The pictures that it is made for, and the run.
  struct Pictures {
    Size resolution;
    int64_t channels = 3;
    int64_t batch = 1;  // images an iteration, all ranks together
    at::Device device = at::kCPU;
  };
  // Throws UserError(kUsage) for transforms that do not work on these pictures (check_augment).
  Ada(const AdaOptions& options,
      const AugmentOptions& transforms,
      const AugmentChoice<AugmentMode>& choice,
      const Pictures& pictures);

  // Returns the pictures x [N, C, H, W] as D sees them. Calls of one iteration that must differ
  // take keys of different phases.
  at::Tensor operator()(const at::Tensor& x, const DrawKey& key, const Samples& samples) const;

  // The present strength, [] float64 on the device; 0 with DiffAugment, which has none.
  const at::Tensor& p() const {
    return constant_p_.defined() ? constant_p_
           : fixed_p_.moves()    ? fixed_p_.value()
                                 : strength_.p();
  }
  // The strength that follows a schedule; a constant where none does.
  DeviceNumber& number() { return fixed_p_; }
  AdaptiveStrength& strength() { return strength_; }
  // Moves p where an interval ends.
  void end_iteration(int64_t iteration);
  // Returns, once, what a strength says from which augmentations leak into pictures; empty
  // otherwise. `gamma` is the key to turn instead. Waits for the device.
  std::vector<std::string> warnings(const std::string& gamma);
  // "ada/p", "ada/signs": all that a resume needs, the tensors themselves.
  NamedTensors state() const;

 private:
  AdaOptions options_;
  AugmentOptions transforms_;
  AugmentChoice<AugmentMode> choice_;
  AdaptiveStrength strength_;
  DeviceNumber fixed_p_;   // of a strength that follows a schedule
  at::Tensor constant_p_;  // of one that never changes, whatever a state says
};

}  // namespace gantrain
