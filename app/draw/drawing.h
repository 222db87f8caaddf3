// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "data/options.h"
#include "data/pictures/dataset.h"
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

// Opens the data of the run that a model file belongs to, by `open`, which has the options from
// data_of_run(). Where `path` (--data) is "", these must be the pictures that the run was trained
// on. Throws UserError(kInput) that says how they differ, or names the file that names data that
// are not there, and what `open` throws.
std::shared_ptr<const Dataset> open_data_of_run(
    const std::filesystem::path& model_file,
    const std::string& path,
    const DataOptions& options,
    const std::function<std::shared_ptr<const Dataset>()>& open);

}  // namespace gantrain
