// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/value.h"
#include "explore/projector.h"
#include "explore/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// What a projection computes with, beside the request.
struct ProjectionTools {
  Generator& generator;
  const ClassTable& classes;  // may be empty
  // Makes a further loss towards the targets [N, C, H, W] in [-1, 1]; empty: pixels alone count.
  std::function<FurtherLoss(const at::Tensor&)> further = {};
  std::string detector = "";  // what identifies that loss, for the state
};

// Looks for the latents of pictures and writes, for each picture NAME, NAME.npz (`w` [1, num_ws,
// w_dim] float32, or `z` [1, z_dim]), NAME-projected.png and NAME-target.png, and the clip that was
// asked for. A signal saves the state and ends with UserError(kInterrupted) or (kStopped); the same
// request goes on from there. Returns {"space": ..., "steps": ..., "pictures": [{"image": ...,
// "npz": ..., "psnr": dB}]}. Throws UserError that names the picture, the flag or the file.
Json project_pictures(const ProjectionTools& tools, const ProjectRequest& request);

}  // namespace gantrain
