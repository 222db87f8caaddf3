// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "draw/requests.h"
#include "gan/generator.h"

namespace gantrain {

// A generator with what a request asks of it: class and SynthesisOptions. It draws one picture at a
// time, so that a latent gives the same picture whatever is drawn beside it.
class Painter {
 public:
  // Throws UserError(kUsage) naming the flag that this model cannot use and which models can, or
  // what the model needs or allows: a class, layers, sizes of stages. `styles_given`: the latents
  // are w, in which class and truncation are already.
  Painter(Generator& generator, const ModelRequest& request, bool styles_given = false);

  // z [z_dim] -> [C, H, W] float32 on the CPU, the network's own output. `noise_seed` keys
  // random noise.
  at::Tensor picture(const at::Tensor& z, uint64_t noise_seed);
  // The layers' latents of z, truncated: [num_ws, w_dim] float32 on the CPU; and their picture.
  at::Tensor map(const at::Tensor& z);
  at::Tensor picture_of_styles(const at::Tensor& ws, uint64_t noise_seed);

  Generator& generator() { return generator_; }
  const std::string& model() const { return model_; }

 private:
  void read_class(const ModelRequest& request, bool styles_given);
  void read_truncation(const ModelRequest& request, bool styles_given);
  void read_noise(const ModelRequest& request);
  void read_level(const ModelRequest& request);

  Generator& generator_;
  std::string model_;  // for messages
  at::Tensor labels_;  // int64 [1], or undefined
  SynthesisOptions synthesis_;
};

// Throws UserError(kUsage) unless the generator has latents of layers: "--mix: MODEL has none".
void require_styles(const Generator& generator, const std::string& flag, const std::string& model);

}  // namespace gantrain
