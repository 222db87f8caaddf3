// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
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

}  // namespace gantrain::stylegan3
