// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "draw/requests.h"

// What `nn` and `project` are asked for: made of the command line by the thin program, sent to the
// trainer library as a message (config/message.h). No torch.

namespace gantrain {

// The real pictures nearest to each fake. Seeds or images are given.
struct NearestRequest {
  ModelRequest how;
  std::vector<int64_t> seeds;
  std::string images;    // folder, zip or picture of fakes instead of seeds, or ""
  std::string data;      // the reals; "": those that the run was trained on
  std::string detector;  // TorchScript file that makes features; "": a random network
  int64_t count = 3;     // nearest reals of each fake
  std::string sheet;     // PNG of all pairs, or ""
  bool json = false;
};

template <class Field>
void fields(NearestRequest& o, Field&& field) {
  fields(o.how, field);
  field("seeds", o.seeds);
  field("images", o.images);
  field("data", o.data);
  field("detector", o.detector);
  field("count", o.count);
  field("sheet", o.sheet);
  field("json", o.json);
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
  fields(o.how, field);
  field("images", o.images);
  field("space", o.space);
  field("steps", o.steps);
  field("seed", o.seed);
  field("lr", o.lr);
  field("starts", o.starts);
  field("detector", o.detector);
  field("outdir", o.outdir);
  field("clip", o.clip);
  field("json", o.json);
}

}  // namespace gantrain
