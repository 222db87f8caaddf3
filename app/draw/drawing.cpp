// SPDX-License-Identifier: Apache-2.0
#include "draw/drawing.h"

#include "config/recipes.h"
#include "config/resolve.h"
#include "core/tensors.h"
#include "data/pictures/dataset.h"
#include "data/pictures/manifest.h"
#include "draw/draw.h"
#include "draw/painter.h"
#include "exchange/import.h"
#include "explore/memorisation.h"
#include "explore/projection.h"
#include "main/requests.h"
#include "metrics/detector.h"
#include "ops/device_kernels.h"
#include "report/grid.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

DrawingModel load_drawing_model(ModelRequest& request) {
  LoadedModel model = load_generator(find_model(request.model), recipe_rows());
  if (request.cuda) to_device(*model.generator->network(), begin_on_gpu(0), at::kFloat);
  if (!request.level) {  // --alpha alone is of the stage that the model was saved in
    request.level = model.level;
    if (!request.alpha) request.alpha = model.alpha;
  }
  request.depth = model.depth;
  return {std::move(model.generator), std::move(model.classes)};
}

namespace {

// Returns what the next command must say to draw the same classes or labels.
std::string class_flag(const ModelRequest& request) {
  if (!request.label.empty()) return " --label " + shell_quote(request.label);
  return request.classes.empty() ? "" : " --class " + shell_quote(request.classes);
}

std::string direction_flags(const DirectionRequest& edits) {
  std::string flags;
  if (!edits.uses.empty()) flags = " --directions " + shell_quote(edits.file);
  for (const DirectionUse& use : edits.uses) flags += " --direction " + shell_quote(use.text);
  return flags;
}

std::string truncation_flags(const ModelRequest& how) {
  if (!how.trunc) return "";
  return fmt::format(" --trunc {}{}",
                     *how.trunc,
                     how.trunc_cutoff ? fmt::format(" --trunc-cutoff {}", *how.trunc_cutoff) : "");
}

// The flags without which `generate` would make another picture of the same latents.
std::string given_flags(const ModelRequest& how) {
  std::string flags;
  if (how.noise_mode) {
    flags +=
        fmt::format(" --noise-mode {}", names(NoiseMode{})[static_cast<size_t>(*how.noise_mode)]);
  }
  if (how.level) flags += fmt::format(" --level {}", *how.level);
  if (how.alpha) flags += fmt::format(" --alpha {}", *how.alpha);
  return flags;
}

// What the next command, of `others` as seeds, is to say to draw the same labels. A file may have
// one for each of this command's seeds: then these, or no labels where there are none.
struct SameLook {
  std::string seeds;
  std::string labels;
};

SameLook look_of(const ModelRequest& how, const SeedList& own, const std::string& others) {
  if (!names_label_file(how.label)) return {others, class_flag(how)};
  if (own.empty()) return {others, ""};
  return {own.text(), class_flag(how)};
}

// The data of the run that the model belongs to, or what --data names.
DataOptions data_options(const NearestRequest& request) {
  if (const auto options = data_of_run(find_model(request.how.model), request.data)) {
    return *options;
  }
  fail(Exit::kUsage,
       "nn: {} has no config.json beside it that names its data; give --data PATH",
       request.how.model);
}

// As the generator's pictures are.
void fit_to(DataOptions& options, const at::Tensor& pictures) {
  options.resolution = {.width = pictures.size(3), .height = pictures.size(2)};
  options.channels = pictures.size(1);
}

Fakes fakes_of(const NearestRequest& request, const DrawingModel& model, DataOptions options) {
  const bool from_files = !request.images.empty();
  Fakes drawn = draw_fakes(*model.generator,
                           request.how,
                           from_files ? std::vector<int64_t>{0} : request.seeds.numbers(),
                           model.classes);
  if (!from_files) return drawn;
  fit_to(options, drawn.pictures);
  options.path = request.images;
  options.labels = "none";
  return load_fakes(*open_dataset(options));
}

PictureVectors vectors_of(const std::shared_ptr<Detector>& detector, int64_t channels) {
  if (!detector) return RandomFeatures(channels);
  return [detector](const at::Tensor& pictures) { return detector->features(pictures); };
}

void say(const Memorisation& found, const Fakes& fakes, const Dataset& reals) {
  const std::vector<size_t> copies = likely_copies(found);
  for (size_t i = 0; i < std::min<size_t>(copies.size(), 8); ++i) {
    const Neighbour& nearest = found.by_pixels[copies[i]].front();
    info("{} is nearly {}{}: distance {:.4f}",
         fakes.names[copies[i]],
         picture_name(reals, nearest.picture),
         nearest.mirrored ? ", mirrored" : "",
         nearest.distance);
  }
  info(
      "likely copies of real pictures: {} of {} (nearer than {:.4f} to one, which is half the "
      "median "
      "distance from a real picture to the nearest other one)",
      copies.size(),
      fakes.names.size(),
      found.usual_pixels / 2);
}

}  // namespace

std::shared_ptr<const Dataset> open_data_of_run(
    const fs::path& model_file,
    const std::string& path,
    const DataOptions& options,
    const std::function<std::shared_ptr<const Dataset>()>& open) {
  if (!path.empty()) return open();
  std::error_code error;
  const fs::path beside = model_file.parent_path(), run = beside.empty() ? "." : beside;
  if (!fs::exists(options.path, error) &&
      options.path.find_first_of(":{*?[") == std::string::npos) {
    fail(Exit::kInput,
         "{}: no such file or folder; {} names it, as it was called where the training was "
         "started; --data PATH names it from here",
         options.path,
         (run / "config.json").string());
  }
  const std::shared_ptr<const Dataset> dataset = open();
  const std::optional<Manifest> before = try_manifest(run);
  if (!before) return dataset;
  Manifest now = list_again(*dataset, options.path, *before);
  if (options.on_bad == OnBad::kSkip) take_broken(*dataset, *before, now);
  const std::string changed = changes(*before, now, dataset.get());
  if (!changed.empty()) {
    fail(Exit::kInput,
         "{0}: not the pictures that {1} was trained on: {2}; --data PATH names those, --data {0} "
         "takes what is there now",
         options.path,
         run.string(),
         changed);
  }
  return dataset;
}

int generate(GenerateRequest request) {
  const std::string flags = truncation_flags(request.how) + given_flags(request.how);
  const DrawingModel model = load_drawing_model(request.how);
  (request.mix ? draw_mix : draw_pictures)(*model.generator, request, model.classes);
  const bool one = request.mix || request.seeds.size() == 1;  // then a file has one label, too
  const SameLook look =
      one ? SameLook{"0-3", class_flag(request.how)} : look_of(request.how, request.seeds, "0-3");
  info("next    {} interpolate --model {} --seeds {} --loop{}{}{}{} -o walk.webp",
       program(),
       shell_quote(request.how.model),
       look.seeds,
       request.mix ? " --space w" : "",
       look.labels,
       flags,
       direction_flags(request.how.edits));
  return 0;
}

int interpolate(InterpolateRequest request) {
  const std::string flags = truncation_flags(request.how) + given_flags(request.how);
  const DrawingModel model = load_drawing_model(request.how);
  draw_walk(*model.generator, request, model.classes);
  const bool alone = request.tracks.columns * request.tracks.rows == 1;
  const SameLook look = look_of(request.how, alone ? request.seeds : SeedList(), "0-63");
  info("next    {} generate --model {} --seeds {}{}{} -o grid.png",
       program(),
       shell_quote(request.how.model),
       look.seeds,
       look.labels,
       flags);
  return 0;
}

int project(ProjectRequest request) {
  const std::string flags = given_flags(request.how);  // loading fills in the model's own
  const DrawingModel model = load_drawing_model(request.how);
  ProjectionTools tools{*model.generator, model.classes};
  std::shared_ptr<Detector> detector;
  if (!request.detector.empty()) {
    const at::Device device = request.how.cuda ? at::Device(at::kCUDA, 0) : at::kCPU;
    detector = std::make_shared<Detector>(request.detector, device, request.detector_sha256);
    tools.detector = detector->sha256();
    tools.further = [detector](const at::Tensor& targets) {
      return detector_loss(detector, targets);
    };
  }
  const Json result = project_pictures(tools, request);
  const Json& first = result["pictures"].front();
  const bool z = text_of(result["space"]) == "z";
  info("next    {} generate --model {} --{} {}{}{} -o projected.png",
       program(),
       shell_quote(request.how.model),
       z ? "z" : "w",
       shell_quote(text_of(first["npz"])),
       first.contains("class")   ? " --class " + text_of(first["class"])
       : first.contains("label") ? " --label " + shell_quote(text_of(first["label"]))
                                 : "",
       flags);
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

int edit(EditRequest request) {
  const std::string flags = given_flags(request.how);  // loading fills in the model's own
  const DrawingModel model = load_drawing_model(request.how);
  const Json result = draw_directions(*model.generator, request, model.classes);
  info(
      "next    {} generate --model {} --seeds {} --directions {} --direction 0:{}{}{}{} -o "
      "edited.png",
      program(),
      shell_quote(request.how.model),
      request.seeds.text(),
      shell_quote(text_of(result["npz"])),
      request.strength,
      class_flag(request.how),
      truncation_flags(request.how),
      flags);
  if (request.json) fmt::print("{}\n", result.dump());
  return 0;
}

int nearest(NearestRequest request) {
  DataOptions data = data_options(request);
  const DrawingModel model = load_drawing_model(request.how);
  const at::Device device = request.how.cuda ? at::Device(at::kCUDA, 0) : at::kCPU;
  const auto detector =
      request.detector.empty()
          ? nullptr
          : std::make_shared<Detector>(request.detector, device, request.detector_sha256);
  const Fakes fakes = fakes_of(request, model, data);
  const auto shown = read_channels("--channels", request.how.channels, fakes.pictures.size(1));
  fit_to(data, fakes.pictures);
  const std::shared_ptr<const Dataset> reals = open_data_of_run(
      find_model(request.how.model), request.data, data, [&] { return open_dataset(data); });
  info("{}", reals->description());
  Job job(reals->size(), "real pictures");
  MemorisationOptions options;
  options.count = request.count;
  options.mirror = data.mirror;
  options.features = vectors_of(detector, fakes.pictures.size(1));
  options.progress = [&](int64_t pictures) { job.step_to(pictures); };
  const Memorisation found = find_nearest(fakes, *reals, options);
  say(found, fakes, *reals);
  if (request.json) {
    Json line = to_json(found, fakes, *reals);
    line["detector"] = detector ? Json{{"file", detector->name()}, {"sha256", detector->sha256()}}
                                : Json("random");
    line["sheet"] = request.sheet.empty() ? Json() : Json(request.sheet);
    fmt::print("{}\n", json_line(line));
    std::fflush(stdout);  // it stands whatever becomes of the sheet
  }
  if (!request.sheet.empty()) {
    write_file(request.sheet, encode_png(pair_sheet(found, fakes, *reals, shown)));
    info("fakes, their {} nearest reals by pixels and by {} in {}",
         request.count,
         detector ? detector->name() + "'s features" : "features of a random network",
         request.sheet);
  }
  info("next    {}", generate_command(request.how.model));
  return 0;
}

}  // namespace gantrain
