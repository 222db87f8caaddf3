// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// Pictures of which one wants to know whether they are copies.
struct Fakes {
  std::vector<std::string> names;
  at::Tensor pictures;  // uint8 [N, C, H, W]
};

// Draws seeds as `generate` does, a conditional model's in the classes asked for, or in all. The
// names are those of generate's files without ending. Throws what `generate` throws, and
// UserError(kUsage) as load_fakes() does.
Fakes draw_fakes(Generator& generator,
                 const ModelRequest& how,
                 const std::vector<int64_t>& seeds,
                 const ClassTable& table);

// Loads all pictures of a data set. Throws UserError(kInput) where there are more than 10,000, or
// where their pixel_vectors() would take more than 2 GiB.
Fakes load_fakes(const Dataset& pictures);

}  // namespace gantrain
