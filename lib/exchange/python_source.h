// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gantrain {

// Returns the parts of the Python program that draws with a generator, as they stand in
// lib/exchange/python: "base", "growing" (layers that PGGAN and StyleGAN 1 share), "style" (the
// mapping of StyleGAN2 and 3), the recipe ("dcgan", ...) and "command". Together, in this order,
// they are one file that needs only torch.
// Throws std::logic_error where there is no such part.
std::string_view python_source(std::string_view part);

// Returns the whole program for a recipe; "" where the recipe has no Python source.
std::string python_program(const std::string& recipe);

}  // namespace gantrain
