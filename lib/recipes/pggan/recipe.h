// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "gan/model_json.h"
#include "gan/recipe.h"
#include "nn/progressive.h"
#include "nn/tensorflow_layout.h"
#include "ops/losses.h"
#include "recipes/pggan/networks.h"
#include "recipes/pggan/options.h"

namespace gantrain::pggan {

// Returns D's loss, WGAN-GP with drift (Karras et al. 2018a, app. A.1), at the level of r pixels of
// a network of `resolution`. real and fake are [N, C, r, r], fake detached. t [N, 1, 1, 1] in [0,
// 1) says where between real and fake the gradient is taken. gp_weight is the present value of
// options.gp_weight.
DiscriminatorLoss d_loss(const Discriminate& D,
                         const at::Tensor& real,
                         const at::Tensor& fake,
                         const at::Tensor& t,
                         const DeviceNumber& gp_weight,
                         const LossOptions& options,
                         int64_t resolution);

// Returns G's loss -E[D(G(z))].
at::Tensor g_loss(const at::Tensor& fake_scores);

// Returns the "gantrain.model" of a generator.
Json model_of(const Shape& shape);

// Makes a generator for RecipeRow::make_generator. Its sizes come from `model`; where that is
// empty, they are read off the tensors. The weights are not loaded. Throws UserError(kInput) that
// names what does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these are a PGGAN generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

// Returns the layout of an official variable, for example "16x16/Conv0_up/weight".
TfLayout layout_of(const std::string& variable, const at::Tensor& value);

// Imports the official variables "G/..." and, where present, "D/...", with their TensorFlow
// layouts. The sizes come from the header's "config" (the official constructors' arguments);
// without it they are read off the tensors. Throws UserError(kInput) that names `source` and the
// variable that is missing, unknown or of another shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// Turns a model's tensors back into the official variables, without metadata.
TensorMap export_official(const TensorMap& tensors);

// This recipe's row for the table of recipes.
RecipeRow row();

}  // namespace gantrain::pggan
