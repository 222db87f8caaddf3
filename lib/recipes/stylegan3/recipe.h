// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gan/recipe.h"
#include "recipes/stylegan3/options.h"
#include "recipes/stylegan3/shape.h"

// What --init-from needs to know between networks of different sizes.

namespace gantrain::stylegan3 {

// Recipe::names_in: layers of a generator of `shape` are matched by their number, since their names
// hold sizes and widths. Filters follow from the sizes.
TensorNames names_in(const std::map<std::string, at::Tensor>& file, const SynthesisShape& shape);

// Recipe::values_that_fit for a run with these options, whose generator has `shape`. The sizes of D
// are looked at where the file has it.
std::vector<std::string> values_that_fit(const std::map<std::string, at::Tensor>& file,
                                         const Options& options,
                                         const GeneratorShape& shape);

// Makes a generator for a model file's tensors, in evaluation mode and float32 throughout; it has a
// MovableInput. `model` is the file's gantrain.model; where it is empty, the sizes are read off the
// tensors. load() accepts files without filters and transform, which it designs itself, and without
// w_avg (then the mean over drawn latents). Throws UserError(kInput) that names `source` and the
// key or the tensor that does not fit.
std::unique_ptr<gantrain::Generator> make_generator(
    const Json& model, const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// Whether these look like a StyleGAN3 generator's tensors.
bool recognises(const std::map<std::string, at::Tensor>& tensors);

// The row of StyleGAN3 (Karras et al. 2021) for the table of recipes. An iteration has the phases
// Gmain, Dmain, Dreg (R1).
RecipeRow row();

}  // namespace gantrain::stylegan3
