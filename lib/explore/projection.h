// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/value.h"
#include "core/safetensors.h"
#include "explore/projector.h"
#include "explore/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"
#include "image/image.h"
#include "util/size.h"

namespace gantrain {

// Pictures to be projected.
struct Targets {
  std::vector<std::string> files;
  std::vector<std::string> names;  // of the files without folder and ending, all different
  at::Tensor pictures;             // uint8 [N, C, H, W]
};

// Reads pictures of any form and size and brings them to `size` and `channels` as training data is:
// the largest part in the middle that has the shape, resampled by Lanczos. Throws UserError(kInput)
// that names a file which cannot be read, and UserError(kUsage) for two files of one name.
Targets load_targets(const std::vector<std::string>& files, Size size, int64_t channels);

// Returns the values in [-1, 1] that pictures of a generator are rounded from, as float32: the
// middle of what becomes that byte.
at::Tensor from_bytes(const at::Tensor& pictures);

// Returns [N]: the peak signal-to-noise ratio in dB between uint8 pictures [N, C, H, W], float64;
// infinite for equal ones.
at::Tensor psnr(const at::Tensor& a, const at::Tensor& b);

// The folder that a projection leaves its files in, with the state from which it goes on after it
// was stopped.
class ProjectionFolder {
 public:
  // `request`: all that the result depends on, as a JSON object. Makes the folder. Throws
  // UserError(kDisk) if it cannot be written to.
  ProjectionFolder(const std::filesystem::path& folder, const Json& request);

  // Returns the state that was saved for the same request; nothing in a new folder. Throws
  // UserError(kUsage) that names what differs where it was another request, and UserError(kInput)
  // where the state is broken.
  std::optional<std::map<std::string, at::Tensor>> load() const;
  // Writes the state, whole or not at all.
  void save(const NamedTensors& state) const;

  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  std::filesystem::path state_file() const { return folder_ / "project-state.safetensors"; }

 private:
  std::filesystem::path folder_;
  Json request_;
};

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
