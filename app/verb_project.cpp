// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "config/message.h"
#include "drawing_flags.h"
#include "explore/requests.h"
#include "trainer_library.h"
#include "util/error.h"

namespace gantrain {

namespace {

struct ProjectFlags {
  std::string space = "auto", steps = "500", seed = "303", lr = "0.1", starts;
};

void add_flags(CLI::App& app, ProjectFlags& flags, ProjectRequest& request) {
  app.add_option("IMAGE", request.images, "pictures of any form and size; they are fitted");
  app.add_option("--space",
                 flags.space,
                 "w: one vector for all layers (default where the model has it); w+: one for each; "
                 "z: the generator's input");
  app.add_option("--steps", flags.steps, "of Adam (500)");
  app.add_option("--lr", flags.lr, "Adam's learning rate at its height (0.1)");
  app.add_option("--starts",
                 flags.starts,
                 "latents tried side by side in the first quarter (4; 1 for large pictures)");
  app.add_option("--seed", flags.seed, "of the noise that is added to the latents (303)");
  app.add_option("--detector",
                 request.detector,
                 "TorchScript file whose features count beside the pixels, such as VGG16's");
  app.add_option("--outdir", request.outdir, "folder for NAME.npz, NAME-projected.png, ...");
  app.add_option("--clip", request.clip, "NAME.webp, or NAME.mp4 where ffmpeg is on PATH");
  app.add_flag("--json", request.json, "one JSON line on standard output");
}

void check_files(const ProjectRequest& request) {
  if (request.images.empty())
    fail(Exit::kUsage, "project: which pictures? gantrain project IMAGE... --model MODEL");
  if (request.outdir.empty()) fail(Exit::kUsage, "project: where to? --outdir FOLDER");
  for (const std::string& image : request.images) {
    std::error_code error;
    if (!std::filesystem::exists(image, error)) fail(Exit::kInput, "{}: no such picture", image);
  }
  std::error_code error;
  if (!request.detector.empty() && !std::filesystem::is_regular_file(request.detector, error))
    fail(Exit::kInput, "--detector {}: no such file", request.detector);
  if (!request.clip.empty()) check_film("--clip", request.clip);
}

}  // namespace

int project_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "The latents whose pictures are nearest to given pictures. A stopped projection goes on "
      "where "
      "it was when the same command is given again.",
      "gantrain project");
  ProjectFlags flags;
  DrawingFlags drawing(DrawingFlags::Model::kFlag);
  ProjectRequest request;
  add_flags(app, flags, request);
  drawing.add_to(app);
  if (!parse(app, arguments)) return 0;
  request.how = drawing.request("project");
  if (request.how.trunc)
    fail(Exit::kUsage, "--trunc: project looks for latents as they are; leave it out");
  request.space = parse_word<ProjectionSpace>("--space", flags.space);
  request.steps = parse_integer("--steps", flags.steps, {1, 1e6, "1 to 1000000"});
  request.seed = parse_integer("--seed", flags.seed, {0, 4294967295, "0 to 4294967295"});
  request.lr = parse_number("--lr", flags.lr, {1e-9, 1e3, "above 0, usually 0.01 to 0.5"});
  if (!flags.starts.empty())
    request.starts = parse_integer("--starts", flags.starts, {1, 1024, "1 to 1024"});
  check_files(request);
  return call_trainer("project", message_of(request).dump(), request.how.cuda);
}

}  // namespace gantrain
