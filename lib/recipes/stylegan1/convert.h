// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "gan/model_json.h"
#include "nn/tensorflow_layout.h"

namespace gantrain::stylegan1 {

// Returns the function that gives the layout of an official variable, for example
// "16x16/Conv0_up/weight". `fused_scale` is the synthesis network's argument; none stands for
// "auto", which means on from 128 pixels. Where it is on, up-sampling kernels are stored mirrored.
LayoutOf layouts(std::optional<bool> fused_scale);

// Imports the official variables "G_mapping/...", "G_synthesis/...", "G/dlatent_avg" and, where
// present, "D/...", with their TensorFlow layouts. The sizes come from the header's "config" (the
// official constructors' arguments); without it they are read off the tensors. Throws
// UserError(kInput) that names `source` and the variable that is missing, unknown or of another
// shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// Turns a model's tensors back into the official variables, without metadata.
TensorMap export_official(const TensorMap& tensors, std::optional<bool> fused_scale);

}  // namespace gantrain::stylegan1
