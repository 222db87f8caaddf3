// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "draw/ranges.h"
#include "draw/seed_list.h"
#include "gan/synthesis_options.h"

// What the verbs that draw are asked for: made of the command line by the thin program, sent to the
// trainer library as a message (config/message.h). No torch.

namespace gantrain {

// How generators move pictures: turned counter-clockwise about their middle, then moved to the
// right and down. Each number has one value, or the values that a walk passes at even distances, in
// straight lines from one to the next.
struct PictureMove {
  std::vector<double> degrees = {0};
  std::vector<double> right = {0}, down = {0};  // in widths of the picture
};

template <class Field>
void fields(PictureMove& o, Field&& field) {
  field("degrees", o.degrees);
  field("right", o.right);
  field("down", o.down);
}

// Which generator draws, and how. What is not given is left to the model.
struct ModelRequest {
  std::string model;    // a model file or a run folder
  bool cuda = false;    // on the first GPU; else on the CPU
  std::string classes;  // what --class was given (gan/class_table.h), or ""
  std::optional<double> trunc;
  std::optional<int64_t> trunc_cutoff;  // layers that `trunc` holds for; only given with it
  std::optional<NoiseMode> noise_mode;
  std::optional<int64_t> level;  // pixels of a progressive model's stage
  std::optional<double> alpha;   // weight of that stage's newest layers, in [0, 1]
  PictureMove move;
};

template <class Field>
void fields(ModelRequest& o, Field&& field) {
  field("model", o.model);
  field("cuda", o.cuda);
  field("class", o.classes);
  field("trunc", o.trunc);
  field("trunc_cutoff", o.trunc_cutoff);
  field("noise_mode", o.noise_mode);
  field("level", o.level);
  field("alpha", o.alpha);
  fields(o.move, field);
}

enum class PictureFormat { kPng, kNpy };
constexpr std::array<std::string_view, 2> names(PictureFormat) { return {"png", "npy"}; }

// One picture for each latent. Exactly one of seeds, z, w and mix is given; an outdir, a grid or
// both are.
struct GenerateRequest {
  ModelRequest how;
  SeedList seeds;
  std::string z;           // .npy or .npz of latents [N, z_dim], or ""
  std::string w;           // .npy or .npz of w [N, num_ws, w_dim] or [N, w_dim], or ""
  std::optional<Mix> mix;  // of two seeds for each picture
  std::string outdir;      // folder of one file for each picture, or ""
  PictureFormat format = PictureFormat::kPng;  // of these files
  std::string grid;                            // PNG of all pictures, or ""
};

template <class Field>
void fields(GenerateRequest& o, Field&& field) {
  fields(o.how, field);
  field("seeds", o.seeds);
  field("z", o.z);
  field("w", o.w);
  field("mix", o.mix);
  field("outdir", o.outdir);
  field("format", o.format);
  field("grid", o.grid);
}

// Where the path between two latents runs: through z on great circles, or through w in straight
// lines; auto: through w where the model has it.
enum class WalkSpace { kZ, kW, kAuto };
constexpr std::array<std::string_view, 3> names(WalkSpace) { return {"z", "w", "auto"}; }

// Paths through latents, side by side, as an animation. A file, an outdir or both are given.
struct InterpolateRequest {
  ModelRequest how;
  SeedList seeds;  // their number is a multiple of the tracks in the grid
  GridShape tracks;
  int64_t frames = 60;  // from one seed to the next
  bool loop = false;    // back to the first seed at the end
  WalkSpace space = WalkSpace::kAuto;
  double fps = 30;
  int64_t quality = 90;  // of WebP: 1 to 100, lossless at 100
  std::string file;      // NAME.webp or NAME.mp4, or ""
  std::string outdir;    // folder of one PNG for each frame, or ""
};

template <class Field>
void fields(InterpolateRequest& o, Field&& field) {
  fields(o.how, field);
  field("seeds", o.seeds);
  fields(o.tracks, field);
  field("frames", o.frames);
  field("loop", o.loop);
  field("space", o.space);
  field("fps", o.fps);
  field("quality", o.quality);
  field("file", o.file);
  field("outdir", o.outdir);
}

}  // namespace gantrain
