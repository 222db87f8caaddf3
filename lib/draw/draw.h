// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "config/value.h"
#include "draw/requests.h"
#include "gan/class_table.h"
#include "gan/generator.h"

namespace gantrain {

// One file for each picture in a folder: NAME.png, of more than 4 channels NAME.c0.png and so on;
// NAME.npy, [H, W, C] of the same whole numbers, or float32 [C, H, W].
class PictureFolder {
 public:
  // Makes the folder. Throws UserError(kDisk) if it cannot be written to.
  // PNGs and stacks have that many bits, 8 or 16.
  PictureFolder(const std::filesystem::path& folder, PictureFormat format, int64_t depth = 8);
  // picture [C, H, W], about [-1, 1].
  void write(const std::string& name, const at::Tensor& picture) const;

 private:
  std::filesystem::path folder_;
  PictureFormat format_;
  int64_t depth_;
};

// What `generate`, `interpolate` and `edit` do with a loaded generator. What the model does not
// allow is refused before anything is written; at the end a message says what was made. A
// conditional model draws the classes that were asked for, or all of them; `table` has their names,
// and may be empty. All throw UserError naming the flag or file.

// One picture a seed (seed0007.png), a row of z (z0000.png) or of w (w0000.png), and a grid of all,
// or with several classes one a class (seed0007-class2.png), sorted by class in the grid.
void draw_pictures(Generator& generator,
                   const GenerateRequest& request,
                   const ClassTable& table = {});

// Style mixing (Karras et al. 2019, sec. 3.1): at row r and column c the picture of r's latents
// with the chosen layers' taken from c, 85-55.png; 85-85.png is seed 85's own. The grid has the
// columns' own pictures above and the rows' at the left, one such block for each of several
// classes.
void draw_mix(Generator& generator, const GenerateRequest& request, const ClassTable& table = {});

// A path through latents, as an animation or as frames, with tracks of its own for each class.
void draw_walk(Generator& generator,
               const InterpolateRequest& request,
               const ClassTable& table = {});

// Finds directions, and writes directions.npz, directions.json and a sheet of each,
// direction00.png: a line a seed and class, strengths from left to right. Returns what "about"
// says, "npz" and for each of "directions" its "number", "value", "length" and "sheet". Throws
// UserError that names the flag or file.
Json draw_directions(Generator& generator,
                     const EditRequest& request,
                     const ClassTable& table = {});

// A job of many pictures. On a terminal a line counts them. SIGINT, SIGTERM and SIGHUP, unless
// ignored, wait while it lives, and end the process between two steps or at the end, never inside
// of a file. One job at a time.
class Job {
 public:
  Job(int64_t count, const std::string& what);  // "frames"
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // One picture is done.
  void step();
  // So many pictures are done.
  void step_to(int64_t done);
  // Takes the signal that waits, or 0: the caller saves its work and ends by itself.
  int take_signal();

 private:
  void let_signals_in();

  int64_t count_;
  int64_t done_ = 0;
  std::string what_;
  bool live_;
  double drawn_at_ = 0;
  std::array<struct sigaction, 3> before_{};
};

}  // namespace gantrain
