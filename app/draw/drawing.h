// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// The model of a verb that draws.
struct DrawingModel {
  std::unique_ptr<Generator> generator;  // on the device that was asked for
  ClassTable classes;                    // names of its classes; may be empty
};

// Loads the model file, or the newest of a run. The request's stage becomes the one that the model
// was saved in, unless another one was asked for. Throws UserError that names the file.
DrawingModel load_drawing_model(ModelRequest& request);

}  // namespace gantrain
