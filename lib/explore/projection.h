// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "core/tensor_files.h"
#include "data/pictures/dataset.h"
#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"
#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Latents of one kind of a generator: a row is [1, w_dim] in w, [num_ws, w_dim] in w+ and [z_dim]
// in z.
class LatentSpace {
 public:
  // `labels`: the classes or vectors that samples come from in turn (ClassChoice::tensor());
  // undefined: none. `space` is not kAuto.
  LatentSpace(Generator& generator,
              const SynthesisOptions& options,
              ProjectionSpace space,
              const at::Tensor& labels);

  // 10,000 seeds' latents, [10000, ...] of one row each, and the root of their mean squared
  // distance from their mean (Karras et al. 2020a, app. D).
  const at::Tensor& samples() const { return samples_; }
  double deviation() const { return deviation_; }
  // Returns the labels of samples `numbers` [M]: int64 [M] or [M, L]; undefined without labels.
  at::Tensor labels_of(const at::Tensor& numbers) const;

  // Returns `rows` [M, ...] of samples' form as latents to be optimised: w+ has one row a layer.
  at::Tensor unfolded(const at::Tensor& rows) const;
  // Returns pictures [M, C, H, W], about in [-1, 1], of latents [M, ...]; `labels` only count in z.
  at::Tensor pictures(const at::Tensor& latents, const at::Tensor& labels, bool gradients) const;
  // Returns latents as files have them: [M, num_ws, w_dim] in w and w+, [M, z_dim] in z.
  at::Tensor for_files(const at::Tensor& latents) const;

  ProjectionSpace space() const { return space_; }

 private:
  Generator& generator_;
  SynthesisOptions options_;
  ProjectionSpace space_;
  at::Tensor labels_;
  at::Tensor samples_;
  double deviation_ = 0;
};

// The mean squared difference of pictures to fixed targets at full size, at half of it, and so on
// while both sides have at least 4 pixels, so that shapes far from their place count too. Where a
// target is black or white, what is blacker or whiter is no difference.
class PyramidLoss {
 public:
  // targets: [N, C, H, W] float32 in [-1, 1].
  explicit PyramidLoss(const at::Tensor& targets);

  // Returns [M], the loss of each picture [M, C, H, W] towards the target of its row, int64 [M].
  at::Tensor operator()(const at::Tensor& pictures, const at::Tensor& rows) const;

 private:
  std::vector<at::Tensor> levels_;  // the targets, each half as large as the one before
};

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
// depends on the options and the state alone.
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
  const at::Tensor& way() const { return way_; }

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
  at::Tensor labels_;          // int64 [M] or vectors [M, L], or undefined
  at::Tensor last_loss_;       // [M]
  at::Tensor first_, second_;  // Adam's moments
  at::Tensor way_;
};

class Detector;

// Returns the loss of pictures towards `targets` [N, C, H, W] in [-1, 1] by what a detector sees:
// the squared distance of LPIPS vectors where it has them (Zhang et al. 2018), else that of
// features relative to the targets' squared length. Pictures are brought to at most 256 pixels.
FurtherLoss detector_loss(const std::shared_ptr<Detector>& detector, const at::Tensor& targets);

// Pictures to be projected.
struct Targets {
  std::vector<std::string> files;
  std::vector<std::string> names;  // of the files without folder and ending, all different
  at::Tensor pictures;             // uint8 or uint16 [N, C, H, W]
};

// Brings pictures of any form to `size` and these values as training data is: the largest part in
// the middle that has the shape, resampled by Lanczos. Throws UserError(kInput) that names a file
// which cannot be read, and UserError(kUsage) for two files of one name.
Targets load_targets(const std::vector<std::string>& files, Size size, const PictureValues& values);

// Returns the values in [-1, 1], float32, in the middle of what becomes that number.
at::Tensor from_bytes(const at::Tensor& pictures);

// Returns the peak signal-to-noise ratio in dB of uint8 or uint16 pictures [N, C, H, W], float64
// [N].
at::Tensor psnr(const at::Tensor& a, const at::Tensor& b);

// What a projection computes with, beside the request.
struct ProjectionTools {
  Generator& generator;
  const ClassTable& classes;  // may be empty
  // Makes a further loss towards targets [N, C, H, W] in [-1, 1]; empty: pixels alone count.
  std::function<FurtherLoss(const at::Tensor&)> further = {};
  std::string detector = "";  // what identifies that loss, for the state
};

// Writes for each picture NAME its latents, NAME.npz (`w` [1, num_ws, w_dim] float32, or `z` [1,
// z_dim]), NAME-projected.png and NAME-target.png, and the clip that was asked for. A signal saves
// the state and ends with UserError(kInterrupted) or (kStopped); the same request goes on from
// there. Returns {"space": ..., "steps": ..., "pictures": [{"image": ..., "npz": ..., "psnr":
// dB}]}. Throws UserError that names the picture, the flag or the file.
Json project_pictures(const ProjectionTools& tools, const ProjectRequest& request);

}  // namespace gantrain
