// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "gan/model_json.h"
#include "nn/tensorflow_layout.h"

namespace gantrain::stylegan1 {

// Layout of official variables: "16x16/Conv0_up/weight". fused_scale is the synthesis network's
// argument; none: "auto", from 128 pixels on. Its kernels then are stored mirrored.
LayoutOf layouts(std::optional<bool> fused_scale);

// From the official variables "G_mapping/...", "G_synthesis/...", "G/dlatent_avg" and, where
// present, "D/...", with their TensorFlow layouts; the sizes come from the header's "config" (the
// official constructors' arguments), or are read off the tensors. Throws UserError(kInput) naming
// `source` and the variable that is missing, unknown or of another shape.
ModelContent import_official(const TensorFile& file, const std::string& source);

// The way back, without metadata.
TensorMap export_official(const TensorMap& tensors, std::optional<bool> fused_scale);

}  // namespace gantrain::stylegan1
