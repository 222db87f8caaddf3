// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli.h"
#include "drawing_flags.h"
#include "ranges.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/program.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct InterpolateFlags {
  std::string seeds = "0-3", frames = "60", space = "auto", grid = "1x1";
  bool loop = false;
  std::string file, outdir, fps = "30", quality;
};

void add_flags(CLI::App& app, InterpolateFlags& flags) {
  app.add_option("--seeds,--seed",
                 flags.seeds,
                 "what the path goes through, numbers and ranges: 0-3,85 (default 0-3)");
  app.add_option("--frames", flags.frames, "from one seed to the next (60)");
  app.add_flag("--loop", flags.loop, "back to the first seed, to be played without an end");
  app.add_option("--space",
                 flags.space,
                 "z: on great circles; w: in straight lines, style-based models (default: w where "
                 "the model has it)");
  app.add_option(
      "--grid", flags.grid, "COLUMNSxROWS tracks side by side, which share the seeds out");
  app.add_option("-o,--output", flags.file, "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  app.add_option("--outdir", flags.outdir, "folder for one PNG a frame: frame0007.png");
  app.add_option("--fps", flags.fps, "frames a second (30)");
  app.add_option("--quality", flags.quality, "of WebP: 1 to 100, lossless at 100 (90)");
}

void check_output(const InterpolateFlags& flags) {
  if (flags.file.empty() && flags.outdir.empty())
    fail(Exit::kUsage, "interpolate: where to? -o NAME.webp, -o NAME.mp4 or --outdir FOLDER");
  const bool webp = ends_with(lower(flags.file), ".webp");
  const bool mp4 = ends_with(lower(flags.file), ".mp4");
  if (!flags.file.empty() && !webp && !mp4)
    fail(Exit::kUsage, "-o {}: give a name ending in .webp or .mp4", flags.file);
  if (!flags.quality.empty() && !webp)
    fail(Exit::kUsage, "--quality {}: is for -o NAME.webp alone", flags.quality);
  if (mp4 && find_program("ffmpeg").empty()) {
    fail(Exit::kEnvironment,
         "-o {}: MP4 needs ffmpeg, which is not on PATH; -o {}.webp needs nothing",
         flags.file,
         flags.file.substr(0, flags.file.size() - 4));
  }
  if (!flags.file.empty()) check_folder_of("-o", flags.file);
}

// Which latents, and how many frames through them.
void add_path(Json& request, const InterpolateFlags& flags) {
  const std::vector<int64_t> seeds = parse_seeds("--seeds", flags.seeds);
  const GridShape grid = parse_grid(flags.grid);
  const auto tracks = static_cast<size_t>(grid.columns * grid.rows);
  if (seeds.size() % tracks != 0 || seeds.size() / tracks < 2) {
    fail(Exit::kUsage,
         "--seeds {}: {} seed{} on {} track{}; each track needs as many, at least 2",
         flags.seeds,
         seeds.size(),
         seeds.size() == 1 ? "" : "s",
         tracks,
         tracks == 1 ? "" : "s");
  }
  request["seeds"] = seeds;
  request["columns"] = grid.columns;
  request["rows"] = grid.rows;
  request["frames"] = parse_integer("--frames", flags.frames, {1, 1e5, "1 to 100000"});
  request["loop"] = flags.loop;
  check_word("--space", flags.space, {"z", "w", "auto"});
  request["space"] = flags.space;
}

}  // namespace

int interpolate_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "A path through a trained generator's latents, from seed to seed, as an animation or as "
      "numbered pictures.",
      "gantrain interpolate");
  InterpolateFlags flags;
  DrawingFlags drawing;
  add_flags(app, flags);
  drawing.add_to(app);
  if (!parse(app, arguments)) return 0;
  check_output(flags);
  Json request = drawing.request("interpolate");
  add_path(request, flags);
  request["fps"] = parse_number("--fps", flags.fps, {1, 240, "1 to 240"});
  const std::string quality = flags.quality.empty() ? "90" : flags.quality;
  request["quality"] = parse_integer("--quality", quality, {1, 100, "1 to 100 (lossless)"});
  request["file"] = flags.file;
  request["outdir"] = flags.outdir;
  return call_trainer("interpolate", request.dump(), request["cuda"].get<bool>());
}

}  // namespace gantrain
