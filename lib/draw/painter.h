// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "draw/requests.h"
#include "gan/generator.h"
#include "gan/movable_input.h"

namespace gantrain {

// A generator with the SynthesisOptions that a request asks for. It draws one picture at a time, so
// that a latent gives the same picture whatever is drawn beside it.
class Painter {
 public:
  // Throws UserError(kUsage) naming the flag that this model cannot use and which models can, or
  // what the model allows: layers, sizes of stages. `styles_given`: the latents are w, in which
  // truncation is already.
  Painter(Generator& generator, const ModelRequest& request, bool styles_given = false);

  // z [z_dim] -> [C, H, W] float32 on the CPU, the network's own output. `noise_seed` keys
  // random noise. A conditional model needs a label, one of its classes; the others ignore it.
  at::Tensor picture(const at::Tensor& z, uint64_t noise_seed, std::optional<int64_t> label = {});
  // The layers' latents of z, truncated: [num_ws, w_dim] float32 on the CPU; and their picture.
  at::Tensor map(const at::Tensor& z, std::optional<int64_t> label = {});
  at::Tensor picture_of_styles(const at::Tensor& ws, uint64_t noise_seed);

  // From now on draws pictures that are moved as the request says at this place of a walk, from 0,
  // its first frame, to 1, its last one; at first as at 0.
  void move_to(double place);

  Generator& generator() { return generator_; }
  const std::string& model() const { return model_; }
  const SynthesisOptions& synthesis() const { return synthesis_; }

 private:
  void read_truncation(const ModelRequest& request, bool styles_given);
  void read_noise(const ModelRequest& request);
  void read_level(const ModelRequest& request);
  void read_move(const ModelRequest& request);

  Generator& generator_;
  std::string model_;  // for messages
  SynthesisOptions synthesis_;
  PictureMove move_;
  MovableInput* movable_ = nullptr;  // the generator, where pictures are moved
  at::Tensor inverse_;               // [3, 3] of the present move
};

// Throws UserError(kUsage) unless the generator has latents of layers: "--mix: MODEL has none".
void require_styles(const Generator& generator, const std::string& flag, const std::string& model);

}  // namespace gantrain
