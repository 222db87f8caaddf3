// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "core/safetensors.h"
#include "explore/latent_space.h"
#include "explore/pyramid_loss.h"

namespace gantrain {

struct ProjectorOptions {
  int64_t steps = 500;
  double lr = 0.1;       // at its height
  int64_t starts = 4;    // latents of each target optimised side by side in the first quarter
  int64_t tried = 256;   // samples among which the starts are the best
  uint64_t seed = 303;   // of the noise that is added to the latents
  int64_t frames = 120;  // of the way there that are kept, at most
  int64_t group = 0;     // pictures that are made at a time; 0: by their size, at most 32
};

// A further loss: pictures [M, C, H, W] and the targets' rows int64 [M] -> [M].
using FurtherLoss = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

// Looks for the latents whose pictures are targets (Karras et al. 2020a, app. D): Adam from the
// mean latent and the best samples, with the paper's ramps of the learning rate and with noise that
// fades out in the first three quarters. Targets do not influence each other. What a step does
// depends on the options and the state alone, so that a state can be loaded and gone on from.
class Projector {
 public:
  // targets: [N, C, H, W] float32 in [-1, 1], on the generator's device. `space` is borrowed.
  Projector(const LatentSpace& space, const at::Tensor& targets, const ProjectorOptions& options);

  void add_loss(FurtherLoss loss) { further_ = std::move(loss); }
  // Chooses the starts. Once, and not before load_state().
  void begin();
  // One step of Adam.
  void step();
  int64_t steps_done() const { return done_; }
  bool finished() const { return done_ >= options_.steps; }

  // The best latents [N, ...] so far and the classes they are drawn in, int64 [N] or undefined.
  at::Tensor latents() const;
  at::Tensor labels() const;
  // Returns the pictures [N, C, H, W] of latents [N, ...].
  at::Tensor pictures(const at::Tensor& latents) const;
  // Returns [F, N, ...]: the way there, first to last; undefined before the first step.
  at::Tensor way() const;

  // All that the next step depends on.
  NamedTensors state() const;
  void load_state(const std::map<std::string, at::Tensor>& state);

 private:
  struct Rate {
    double lr;
    double noise;
  };
  Rate rate_now() const;
  at::Tensor losses(const at::Tensor& pictures, const at::Tensor& rows) const;
  at::Tensor noise_of_step() const;
  // Calls `work` with the first row and the number of rows of each group of `count` rows.
  void for_groups(int64_t count, const std::function<void(int64_t, int64_t)>& work) const;
  struct Descent {
    at::Tensor loss;      // [M]
    at::Tensor gradient;  // of the sum of losses, in the form of the latents
  };
  // Of some of the latents, with `noise` [M, ...] added; undefined: none.
  Descent descent(const at::Tensor& noise, int64_t first, int64_t count) const;
  void keep_best_starts();
  at::Tensor best_rows() const;
  bool is_frame() const;

  const LatentSpace& space_;
  ProjectorOptions options_;
  int64_t targets_;
  PyramidLoss loss_;
  FurtherLoss further_;
  int64_t done_ = 0;
  at::Tensor latents_;         // [M, ...]: `starts` rows of each target, later one
  at::Tensor rows_;            // int64 [M]: which target
  at::Tensor labels_;          // int64 [M] or undefined
  at::Tensor last_loss_;       // [M]
  at::Tensor first_, second_;  // Adam's moments
  at::Tensor way_;
};

}  // namespace gantrain
