// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// One file for each picture in a folder: NAME.png, 8 bit, or NAME.npy, float32 [C, H, W].
class PictureFolder {
 public:
  // Makes the folder. Throws UserError(kDisk) if it cannot be written to.
  PictureFolder(const std::filesystem::path& folder, PictureFormat format);
  // picture [C, H, W], about [-1, 1].
  void write(const std::string& name, const at::Tensor& picture) const;

 private:
  std::filesystem::path folder_;
  PictureFormat format_;
};

// What `generate` and `interpolate` do with a loaded generator. Everything that the model does not
// allow is refused before anything is written; at the end a message says what was made. A
// conditional model draws the classes that were asked for, or all of them; `table` has their names,
// and may be empty. All throw UserError naming the flag or file.

// One picture a seed (seed0007.png), a row of z (z0000.png) or of w (w0000.png), and a grid of all;
// `request.mix` is empty. With several classes it is one picture a class (seed0007-class2.png), and
// the grid is sorted by class.
void draw_pictures(Generator& generator,
                   const GenerateRequest& request,
                   const ClassTable& table = {});

// Style mixing (Karras et al. 2019, sec. 3.1): at row r and column c the picture of r's latents
// with the chosen layers' taken from c, 85-55.png for seeds 85 and 55; 85-85.png is seed 85's own.
// The grid has the columns' own pictures above and the rows' at the left, and with several classes
// (85-55-class2.png) one such block below the other. `request.mix` is given.
void draw_mix(Generator& generator, const GenerateRequest& request, const ClassTable& table = {});

// A path through latents, as an animation or as frames. With several classes each has tracks of
// its own, one class below the other.
void draw_walk(Generator& generator,
               const InterpolateRequest& request,
               const ClassTable& table = {});

}  // namespace gantrain
