// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "gan/model_json.h"
#include "gan/recipe.h"
#include "nn/progressive.h"
#include "nn/tensorflow_layout.h"
#include "ops/losses.h"
#include "recipes/stylegan1/networks.h"
#include "recipes/stylegan1/options.h"

namespace gantrain::stylegan1 {

// Present values of the options r1_gamma, r2_gamma and gp_weight.
struct PenaltyWeights {
  DeviceNumber r1, r2, gp;
};

// Returns D's loss with its penalties at the level of r pixels of a network of `resolution`. real
// and fake are [N, C, r, r], fake detached. Only wgan-gp needs t, [N, 1, 1, 1] in [0, 1).
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const PenaltyWeights& weights,
                         const LossOptions& options,
                         int64_t resolution);

// Returns G's loss, which options.kind names.
at::Tensor g_loss(const at::Tensor& fake_scores, const LossOptions& options);

// Returns the "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// Makes a generator for RecipeRow::make_generator. Its sizes come from `model`; where that is
// empty, they are read off the tensors. The weights are not loaded. Throws UserError(kInput) that
// names what does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these are a StyleGAN generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

// Returns the function that gives the layout of an official variable, for example
// "16x16/Conv0_up/weight". `fused_scale` is the synthesis network's argument; none stands for
// "auto", which means on from 128 pixels. Where it is on, up-sampling kernels are stored mirrored.
LayoutOf layouts(std::optional<bool> fused_scale);

// Imports the official variables "G_mapping/...", "G_synthesis/...", "G/dlatent_avg" and, where
// present, "D/...", with their TensorFlow layouts. The sizes come from the header's "config" (the
// official constructors' arguments); without it they are read off the tensors. Throws
// UserError(kInput) that names `source` and the variable that is missing, unknown or of another
// shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// Turns a model's tensors back into the official variables, without metadata.
TensorMap export_official(const TensorMap& tensors, std::optional<bool> fused_scale);

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::stylegan1
