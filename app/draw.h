// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "gan/recipe.h"

namespace gantrain {

// What `generate` and `interpolate` do with a loaded generator; the requests are those of
// trainer_verbs.h, read there. Everything that the model does not allow is refused before anything
// is written; then messages say what was made, and what can be run next.

// One picture a seed (seed0007.png), a row of z (z0000.png) or of w (w0000.png), and a grid of all.
void draw_pictures(Generator& generator, const Json& request);

// Style mixing (Karras et al. 2019, sec. 3.1): at row r and column c the picture of r's latents
// with the chosen layers' taken from c, 85-55.png for seeds 85 and 55; 85-85.png is seed 85's own.
// The grid has the columns' own pictures above and the rows' at the left.
void draw_mix(Generator& generator, const Json& request);

// A path through latents, as an animation or as frames.
void draw_walk(Generator& generator, const Json& request);

// NAME.png, 8 bit, or NAME.npy, float32 [C, H, W], in a folder.
class PictureFolder {
 public:
  PictureFolder(const std::filesystem::path& folder, const std::string& format);  // makes it
  void write(const std::string& name, const at::Tensor& picture) const;

 private:
  std::filesystem::path folder_;
  bool npy_;
};

}  // namespace gantrain
