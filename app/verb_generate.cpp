// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli.h"
#include "config/message.h"
#include "draw/ranges.h"
#include "draw/requests.h"
#include "drawing_flags.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct GenerateFlags {
  std::string seeds, z, w, mix;  // one of them: what is drawn
  std::string format = "png";
};

void add_flags(CLI::App& app, GenerateFlags& flags, GenerateRequest& request) {
  app.add_option("--seeds,--seed", flags.seeds, "numbers and ranges: 0-63,85 (default 0-15)");
  app.add_option(
      "--z", flags.z, "latents instead of seeds: .npy, [N, z_dim] float32, or .npz with z");
  app.add_option(
      "--w",
      flags.w,
      "style-based models: latents of layers, .npy, [N, num_ws, w_dim] or [N, w_dim], or "
      "projected_w.npz with w");
  app.add_option("--mix",
                 flags.mix,
                 "style-based models: ROWS:COLUMNS:LAYERS, as 85,100:55-60:0-6; each row's seed "
                 "with these layers from each column's");
  app.add_option("--outdir", request.outdir, "folder for one file a picture: seed0007.png");
  app.add_option("-o,--grid", request.grid, "one PNG with all pictures");
  app.add_option(
      "--format", flags.format, "png: 8 bit; npy: float32 [C, H, W], the network's own output");
}

// What is drawn: seeds, z, w or mix.
void add_latents(GenerateRequest& request, const GenerateFlags& flags) {
  std::vector<std::string> given;
  for (const auto& [name, value] : {std::pair("--seeds", &flags.seeds),
                                    std::pair("--z", &flags.z),
                                    std::pair("--w", &flags.w),
                                    std::pair("--mix", &flags.mix)}) {
    if (!value->empty()) given.emplace_back(name);
  }
  if (given.size() > 1) fail(Exit::kUsage, "{} exclude each other", join(given, " and "));
  if (!flags.z.empty()) {
    request.z = flags.z;
  } else if (!flags.w.empty()) {
    request.w = flags.w;
  } else if (!flags.mix.empty()) {
    request.mix = parse_mix(flags.mix);
  } else {
    request.seeds = parse_seeds("--seeds", flags.seeds.empty() ? "0-15" : flags.seeds);
  }
}

}  // namespace

int generate_verb(const std::vector<std::string>& arguments) {
  CLI::App app("Pictures from a trained generator: a model file, or the newest of a run folder.",
               "gantrain generate");
  GenerateFlags flags;
  DrawingFlags drawing;
  MoveFlags moves(MoveFlags::Of::kPicture);
  GenerateRequest request;
  add_flags(app, flags, request);
  drawing.add_to(app);
  moves.add_to(app);
  if (!parse(app, arguments)) return 0;
  if (request.outdir.empty() && request.grid.empty())
    fail(Exit::kUsage, "generate: where to? --outdir FOLDER or -o GRID.png");
  if (!request.grid.empty() && !ends_with(lower(request.grid), ".png"))
    fail(Exit::kUsage, "-o {}: the grid is a PNG; give a name ending in .png", request.grid);
  request.format = parse_word<PictureFormat>("--format", flags.format);
  request.how = drawing.request("generate");
  request.how.move = moves.move();
  add_latents(request, flags);
  if (!request.grid.empty()) check_folder_of("-o", request.grid);
  return call_trainer("generate", message_of(request).dump(), request.how.cuda);
}

}  // namespace gantrain
