// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "draw/requests.h"

// What `nn` and `project` are asked for: the thin program makes it of the command line, whose
// options are the members with a help text (command/options.h), and hands it to the trainer
// library. No torch.

namespace gantrain {

// The real pictures nearest to each fake. Seeds or images are given.
struct NearestRequest {
  ModelRequest how;
  SeedList seeds;
  std::string images;    // folder, zip or picture of fakes instead of seeds, or ""
  std::string data;      // the reals; "": those that the run was trained on
  std::string detector;  // TorchScript file that makes features; "": a random network
  int64_t count = 3;     // nearest reals of each fake
  std::string sheet;     // PNG of all pairs, or ""
  bool json = false;
};

template <class Field>
void fields(NearestRequest& o, Field&& field) {
  field("seeds", o.seeds, said("--seeds,--seed"), "fakes of these seeds: 0-63,85 (default 0-15)");
  field("images", o.images, "fakes instead of seeds: a folder or zip of pictures");
  field("data", o.data, "the reals (default: those that the run was trained on)");
  field("detector",
        o.detector,
        "TorchScript file whose features are compared (default: a random network's)");
  field("count",
        o.count,
        said("--count,-k"),
        between(1, 100, "1 to 100"),
        "nearest reals of each fake (3)");
  field("sheet", o.sheet, said("-o,--sheet"), "PNG: fake, nearest by pixels, nearest by features");
  field("json", o.json, "one JSON line on standard output");
  model_fields(o.how, field);
}

// Which latents a projection looks for. w: one vector for all layers; w+: one for each; z: the
// generator's input; auto: w where the model has it.
enum class ProjectionSpace { kW, kWPlus, kZ, kAuto };
constexpr std::array<std::string_view, 4> names(ProjectionSpace) {
  return {"w", "w+", "z", "auto"};
}

// The latents whose pictures are nearest to given pictures.
struct ProjectRequest {
  ModelRequest how;
  std::vector<std::string> images;  // files
  ProjectionSpace space = ProjectionSpace::kAuto;
  int64_t steps = 500;
  int64_t seed = 303;    // of the noise that is added to w
  double lr = 0.1;       // Adam's, at its height
  int64_t starts = 0;    // optimised side by side in the first quarter; 0: by the pictures' size
  std::string detector;  // TorchScript file whose features count too, or ""
  std::string outdir;
  std::string clip;  // NAME.webp or NAME.mp4 of the way there, or ""
  bool json = false;
};

template <class Field>
void fields(ProjectRequest& o, Field&& field) {
  field("images", o.images, said("IMAGE"), "pictures of any form and size; they are fitted");
  field("space",
        o.space,
        "w: one vector for all layers (default where the model has it); w+: one for each; "
        "z: the generator's input");
  field("steps", o.steps, between(1, 1e6, "1 to 1000000"), "of Adam (500)");
  field("lr",
        o.lr,
        between(1e-9, 1e3, "above 0, usually 0.01 to 0.5"),
        "Adam's learning rate at its height (0.1)");
  field("starts",
        o.starts,
        between(1, 1024, "1 to 1024"),
        "latents tried side by side in the first quarter (4; 1 for large pictures)");
  field("seed",
        o.seed,
        between(0, 4294967295, "0 to 4294967295"),
        "of the noise that is added to the latents (303)");
  field("detector",
        o.detector,
        "TorchScript file whose features count beside the pixels, such as VGG16's");
  field("outdir", o.outdir, "folder for NAME.npz, NAME-projected.png, ...");
  field("clip", o.clip, "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  field("json", o.json, "one JSON line on standard output");
  fields(o.how, field);
}

}  // namespace gantrain
