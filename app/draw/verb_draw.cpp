// SPDX-License-Identifier: Apache-2.0
// The verbs that draw with a trained generator: generate, interpolate, project, edit.
#include <filesystem>

#include "command/options.h"
#include "draw/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

void decide_model(const std::string& verb, ModelRequest& request) {
  if (request.model.empty() && request.argument.empty())
    fail(Exit::kUsage, "{}: which model? --model FILE or a run folder", verb);
  if (!request.model.empty() && !request.argument.empty()) {
    fail(Exit::kUsage,
         "{}: two models, {} and --model {}; give one",
         verb,
         request.argument,
         request.model);
  }
  if (request.model.empty()) request.model = request.argument;
  if (!request.label.empty() && !request.classes.empty())
    fail(Exit::kUsage, "--class and --label exclude each other");
  if (request.trunc_cutoff && !request.trunc) {
    fail(Exit::kUsage,
         "--trunc-cutoff {}: says for how many layers --trunc PSI holds; give both",
         *request.trunc_cutoff);
  }
  request.cuda = computes_on_gpu(request.device);
}

namespace {

// --rotate and --translate. A walk may pass several values with colons between them; a single one
// is reached at its end. Throws UserError(kUsage) where a value cannot be read.
PictureMove move_of(const std::string& rotate, const std::string& translate, bool walk) {
  const auto values_of = [&](const std::string& text) {
    return walk ? split(text, ':') : std::vector{text};
  };
  PictureMove move;
  if (!rotate.empty()) {
    move.degrees.clear();
    for (const std::string& value : values_of(rotate)) {
      move.degrees.push_back(
          parse_number("--rotate", value, any_number("degrees, like 30 or -90")));
    }
  }
  if (!translate.empty()) {
    const Check allowed = any_number("RIGHT,DOWN in picture widths, like 0.25,-0.1");
    move.right.clear();
    move.down.clear();
    for (const std::string& value : values_of(translate)) {
      const std::vector<std::string> parts = split(value, ',');
      if (parts.size() != 2)
        fail(Exit::kUsage, "--translate {}: allowed: {}", value, allowed.words);
      move.right.push_back(parse_number("--translate", parts[0], allowed));
      move.down.push_back(parse_number("--translate", parts[1], allowed));
    }
  }
  if (!walk) return move;
  for (std::vector<double>* values : {&move.degrees, &move.right, &move.down}) {
    if (values->size() == 1) values->insert(values->begin(), 0);
  }
  return move;
}

// --directions and --direction.
void decide_edits(ModelRequest& how, const std::vector<std::string>& said, bool walk) {
  const std::string& file = how.edits.file;
  if (said.empty() && !file.empty()) {
    fail(Exit::kUsage,
         "--directions {}: which of them? --direction 0:3 goes along the first one",
         file);
  }
  if (!said.empty() && file.empty())
    fail(Exit::kUsage, "--direction {}: of which file? --directions FILE.npz", said.front());
  for (const std::string& text : said) how.edits.uses.push_back(parse_direction(text, walk));
  std::error_code error;
  if (!said.empty() && !std::filesystem::is_regular_file(file, error))
    fail(Exit::kInput, "--directions {}: no such file", file);
}

// What is drawn: seeds, z, w or mix.
void decide_latents(GenerateRequest& request) {
  std::vector<std::string> given;
  for (const auto& [name, said] : {std::pair("--seeds", !request.seeds.empty()),
                                   std::pair("--z", !request.z.empty()),
                                   std::pair("--w", !request.w.empty()),
                                   std::pair("--mix", request.mix.has_value())}) {
    if (said) given.emplace_back(name);
  }
  if (given.size() > 1) fail(Exit::kUsage, "{} exclude each other", join(given, " and "));
  if (given.empty()) request.seeds = parse_seeds("--seeds", "0-15");
}

int run_generate(GenerateRequest& request, Options&) {
  if (request.outdir.empty() && request.grid.empty())
    fail(Exit::kUsage, "generate: where to? --outdir FOLDER or -o GRID.png");
  if (request.outdir.empty() && request.format != PictureFormat::kPng)
    fail(Exit::kUsage, "--format: goes with --outdir; the grid of -o is a PNG");
  if (!request.grid.empty() && !ends_with(lower(request.grid), ".png"))
    fail(Exit::kUsage, "-o {}: the grid is a PNG; give a name ending in .png", request.grid);
  decide_model("generate", request.how);
  request.how.move = move_of(request.rotate, request.translate, /*walk=*/false);
  decide_edits(request.how, request.direction, /*walk=*/false);
  decide_latents(request);
  if (!request.grid.empty()) check_folder_of("-o", request.grid);
  return call_trainer("generate", request, request.how.cuda);
}

void check_output(const InterpolateRequest& request, bool quality_given) {
  const std::string& file = request.file;
  if (file.empty() && request.outdir.empty())
    fail(Exit::kUsage, "interpolate: where to? -o NAME.webp, -o NAME.mp4 or --outdir FOLDER");
  if (quality_given && !ends_with(lower(file), ".webp"))
    fail(Exit::kUsage, "--quality {}: is for -o NAME.webp alone", request.quality);
  if (!file.empty()) check_film("-o", file);
}

// Which latents the path goes through, and on how many tracks.
void decide_path(InterpolateRequest& request) {
  if (request.seeds.empty()) request.seeds = parse_seeds("--seeds", "0-3");
  const SeedList& seeds = request.seeds;
  request.tracks = parse_grid(request.grid);
  const int64_t tracks = request.tracks.columns * request.tracks.rows;
  if (seeds.size() % tracks == 0 && seeds.size() / tracks >= 2) return;
  fail(Exit::kUsage,
       "--seeds {}: {} cannot be shared out among {}; every track must get the same number of "
       "seeds, "
       "at least 2",
       seeds.text(),
       counted(seeds.size(), "seed"),
       counted(tracks, "track"));
}

int run_interpolate(InterpolateRequest& request, Options& options) {
  check_output(request, options.given("--quality"));
  decide_model("interpolate", request.how);
  request.how.move = move_of(request.rotate, request.translate, /*walk=*/true);
  decide_edits(request.how, request.direction, /*walk=*/true);
  decide_path(request);
  return call_trainer("interpolate", request, request.how.cuda);
}

void check_files(const ProjectRequest& request) {
  if (request.images.empty())
    fail(Exit::kUsage, "project: which pictures? {} project IMAGE... --model MODEL", program());
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

int run_project(ProjectRequest& request, Options&) {
  decide_model("project", request.how);
  if (request.how.trunc)
    fail(Exit::kUsage, "--trunc: project looks for latents as they are; leave it out");
  check_files(request);
  return call_trainer("project", request, request.how.cuda);
}

int run_edit(EditRequest& request, Options& options) {
  decide_model("edit", request.how);
  if (request.outdir.empty()) fail(Exit::kUsage, "edit: where to? -o FOLDER");
  if (request.method == DirectionMethod::kSefa && options.given("--samples")) {
    fail(Exit::kUsage,
         "--samples {}: sefa takes the weights alone; --method ganspace has samples",
         request.samples);
  }
  if (request.seeds.empty()) request.seeds = parse_seeds("--seeds", "0-3");
  return call_trainer("edit", request, request.how.cuda);
}

}  // namespace

Verb generate_verb() {
  return verb_of(
      "generate",
      "pictures from a trained generator",
      "Draws pictures with a trained generator: a model file, or a run folder's newest one.",
      run_generate);
}

Verb interpolate_verb() {
  return verb_of("interpolate",
                 "an animation from seed to seed: WebP, MP4 or frames",
                 "Draws a path through a trained generator's latents, from seed to seed, as an "
                 "animation or as numbered pictures.",
                 run_interpolate);
}

Verb project_verb() {
  return verb_of("project",
                 "the latents whose pictures are nearest to given pictures",
                 "Finds the latents whose pictures are nearest to given pictures. After an "
                 "interruption the same command continues.",
                 run_project);
}

Verb edit_verb() {
  return verb_of(
      "edit",
      "find editing directions of a style-based model, with contact sheets",
      "Finds directions in w along which the pictures of a style-based generator change, by SeFa "
      "(Shen and Zhou 2021) or GANSpace (Haerkoenen et al. 2020), and draws a sheet of each. "
      "generate and interpolate apply them with --directions and --direction.",
      run_edit);
}

}  // namespace gantrain
