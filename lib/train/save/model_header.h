// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "config/value.h"

namespace gantrain {

// Returns the JSON header of a model file (.safetensors), null where it has none, and of such a
// header what it says of the model, "gantrain.model"; null where it says nothing.
Json header_of_model(const std::filesystem::path& file);
Json model_in_header(const Json& header);

}  // namespace gantrain
