// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gan/model_json.h"
#include "nn/tensorflow_layout.h"

namespace gantrain::pggan {

// Layout of an official variable: "16x16/Conv0_up/weight".
TfLayout layout_of(const std::string& variable, const at::Tensor& value);

// From the official variables "G/..." and, where present, "D/...", with their TensorFlow layouts;
// the sizes come from the header's "config" (the official constructors' arguments), or are read off
// the tensors. Throws UserError(kInput) naming `source` and the variable that is missing, unknown
// or of another shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// The way back, without metadata.
TensorMap export_official(const TensorMap& tensors);

}  // namespace gantrain::pggan
