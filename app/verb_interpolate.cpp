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

struct InterpolateFlags {
  std::string seeds = "0-3", frames = "60", space = "auto", grid = "1x1";
  std::string fps = "30", quality;
};

void add_flags(CLI::App& app, InterpolateFlags& flags, InterpolateRequest& request) {
  app.add_option("--seeds,--seed",
                 flags.seeds,
                 "what the path goes through, numbers and ranges: 0-3,85 (default 0-3)");
  app.add_option("--frames", flags.frames, "from one seed to the next (60)");
  app.add_flag("--loop", request.loop, "back to the first seed, to be played without an end");
  app.add_option("--space",
                 flags.space,
                 "z: on great circles; w: in straight lines, style-based models (default: w where "
                 "the model has it)");
  app.add_option(
      "--grid", flags.grid, "COLUMNSxROWS tracks side by side, which share the seeds out");
  app.add_option("-o,--output", request.file, "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  app.add_option("--outdir", request.outdir, "folder for one PNG a frame: frame0007.png");
  app.add_option("--fps", flags.fps, "frames a second (30)");
  app.add_option("--quality", flags.quality, "of WebP: 1 to 100, lossless at 100 (90)");
}

void check_output(const InterpolateRequest& request, const std::string& quality) {
  const std::string& file = request.file;
  if (file.empty() && request.outdir.empty())
    fail(Exit::kUsage, "interpolate: where to? -o NAME.webp, -o NAME.mp4 or --outdir FOLDER");
  if (!quality.empty() && !ends_with(lower(file), ".webp"))
    fail(Exit::kUsage, "--quality {}: is for -o NAME.webp alone", quality);
  if (!file.empty()) check_film("-o", file);
}

// Which latents, and how many frames through them.
void add_path(InterpolateRequest& request, const InterpolateFlags& flags) {
  const SeedList seeds = parse_seeds("--seeds", flags.seeds);
  request.tracks = parse_grid(flags.grid);
  const int64_t tracks = request.tracks.columns * request.tracks.rows;
  if (seeds.size() % tracks != 0 || seeds.size() / tracks < 2) {
    fail(Exit::kUsage,
         "--seeds {}: {} seed{} on {} track{}; each track needs as many, at least 2",
         flags.seeds,
         seeds.size(),
         seeds.size() == 1 ? "" : "s",
         tracks,
         tracks == 1 ? "" : "s");
  }
  request.seeds = seeds;
  request.frames = parse_integer("--frames", flags.frames, {1, 1e5, "1 to 100000"});
  request.space = parse_word<WalkSpace>("--space", flags.space);
}

}  // namespace

int interpolate_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "A path through a trained generator's latents, from seed to seed, as an animation or as "
      "numbered pictures.",
      "gantrain interpolate");
  InterpolateFlags flags;
  DrawingFlags drawing;
  MoveFlags moves(MoveFlags::Of::kWalk);
  InterpolateRequest request;
  add_flags(app, flags, request);
  drawing.add_to(app);
  moves.add_to(app);
  if (!parse(app, arguments)) return 0;
  check_output(request, flags.quality);
  request.how = drawing.request("interpolate");
  request.how.move = moves.move();
  add_path(request, flags);
  request.fps = parse_number("--fps", flags.fps, {1, 240, "1 to 240"});
  const std::string quality = flags.quality.empty() ? "90" : flags.quality;
  request.quality = parse_integer("--quality", quality, {1, 100, "1 to 100 (lossless)"});
  return call_trainer("interpolate", message_of(request).dump(), request.how.cuda);
}

}  // namespace gantrain
