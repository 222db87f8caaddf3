// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gan/model_json.h"
#include "nn/tensorflow_layout.h"

namespace gantrain::pggan {

// Returns the layout of an official variable, for example "16x16/Conv0_up/weight".
TfLayout layout_of(const std::string& variable, const at::Tensor& value);

// Imports the official variables "G/..." and, where present, "D/...", with their TensorFlow
// layouts. The sizes come from the header's "config" (the official constructors' arguments);
// without it they are read off the tensors. Throws UserError(kInput) that names `source` and the
// variable that is missing, unknown or of another shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// Turns a model's tensors back into the official variables, without metadata.
TensorMap export_official(const TensorMap& tensors);

}  // namespace gantrain::pggan
