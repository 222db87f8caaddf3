// SPDX-License-Identifier: Apache-2.0
// gantrain data inspect|pack.
#include <CLI/CLI.hpp>

#include "cli.h"
#include "config/message.h"
#include "curation/requests.h"
#include "device_choice.h"
#include "drawing_flags.h"
#include "launch/environment.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kPathHelp =
    "folder, zip, tar, LMDB, or files of CIFAR or MNIST, as --data takes them";
constexpr const char* kLabelsHelp = "CSV or JSON with the class of each picture";
constexpr int64_t kLargestSide = 4096;

// Throws UserError where no data was named, or one that nothing can be said about.
void check_path(const std::string& verb, const std::string& path) {
  if (path.empty()) fail(Exit::kUsage, "data {}: which data? gantrain data {} PATH", verb, verb);
  if (starts_with(path, "synth:"))
    fail(Exit::kUsage, "{}: pictures that are computed; data {} wants files", path, verb);
}

bool has_gpu() { return gpu_outlook(DeviceKind::kAuto, current_environment()).visible.count > 0; }

int inspect_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Looks at every picture of a data set: sizes, forms, classes, copies, bad files, and what to "
      "start training with.",
      "gantrain data inspect");
  InspectRequest request;
  app.add_option("PATH,--data", request.path, kPathHelp);
  app.add_option("--labels", request.labels, kLabelsHelp);
  app.add_option("--sheet", request.sheet, "PNG to write with up to 100 of the pictures");
  app.add_option("--bad", request.bad, "text file to write with the bad files, one a line");
  app.add_flag("--all", request.all, "list all copies, not only the first");
  app.add_flag("--json", request.json, "one JSON line");
  if (!parse(app, arguments)) return 0;
  check_path("inspect", request.path);
  if (!request.sheet.empty() && !ends_with(lower(request.sheet), ".png"))
    fail(Exit::kUsage, "--sheet {}: give a name ending in .png", request.sheet);
  if (!request.sheet.empty()) check_folder_of("--sheet", request.sheet);
  if (!request.bad.empty()) check_folder_of("--bad", request.bad);
  request.gpu = has_gpu();
  return call_trainer("data inspect", message_of(request).dump(), /*cuda=*/false);
}

struct PackFlags {
  std::string resolution, fit = "crop", filter = "lanczos", channels = "auto", max_images,
                          on_bad = "skip";
};

void add_flags(CLI::App& app, PackRequest& request, PackFlags& flags) {
  app.add_option("PATH,--data", request.path, kPathHelp);
  app.add_option("-o,--output", request.output, "NAME.zip, or a folder");
  app.add_option("--resolution", flags.resolution, "pixels: 256, or width x height: 256x128");
  app.add_option("--fit", flags.fit, "how a picture gets that shape: crop, pad or stretch");
  app.add_option("--filter", flags.filter, "lanczos, bicubic, bilinear or box");
  app.add_option("--channels", flags.channels, "1 grey, 3 RGB, 4 RGBA; auto: 1 if all are grey");
  app.add_option("--labels", request.labels, kLabelsHelp);
  app.add_option("--max-images", flags.max_images, "only so many, the first by name");
  app.add_option("--png-level",
                 request.level,
                 "0: as large as the pixels, packed and read fastest, as other tools write it; to "
                 "9: smallest")
      ->check(CLI::Range(0, 9));
  app.add_option("--on-bad", flags.on_bad, "skip: leave bad pictures out and list them; or fail");
  app.add_flag("--force", request.force, "replace the output where it exists");
  app.add_flag("--json", request.json, "one JSON line, last on standard output");
}

Size parse_resolution(const std::string& text) {
  const std::optional<Size> size = parse_size(text);
  if (!size || size->shorter() < 4 || size->longer() > kLargestSide) {
    fail(Exit::kUsage,
         "--resolution {}: pixels a side, or width x height, from 4 to {}: 256, 256x128",
         text,
         kLargestSide);
  }
  return *size;
}

void read_flags(const PackFlags& flags, PackRequest& request) {
  request.resolution = parse_resolution(flags.resolution);
  request.fit = parse_word<Fit>("--fit", flags.fit);
  request.filter = parse_word<Filter>("--filter", flags.filter);
  request.on_bad = parse_word<OnBad>("--on-bad", flags.on_bad);
  if (flags.channels != "auto")
    request.channels = parse_integer("--channels", flags.channels, {1, 4, "1 to 4, or auto"});
  if (!flags.max_images.empty())
    request.max_images = parse_integer("--max-images", flags.max_images, {1, 1e9, "1 or more"});
}

int pack_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes a data set of prepared pictures in the layout of StyleGAN's dataset_tool: PNGs of "
      "one "
      "size and dataset.json, in a zip or a folder. Stopped at any time, the same command goes on.",
      "gantrain data pack");
  PackRequest request;
  PackFlags flags;
  add_flags(app, request, flags);
  if (!parse(app, arguments)) return 0;
  check_path("pack", request.path);
  if (request.output.empty()) fail(Exit::kUsage, "data pack: where to? -o NAME.zip, or -o FOLDER");
  if (flags.resolution.empty())
    fail(Exit::kUsage, "data pack: which size? --resolution 256, or --resolution 256x128");
  read_flags(flags, request);
  return call_trainer("data pack", message_of(request).dump(), /*cuda=*/false);
}

}  // namespace

const std::vector<Verb>& data_verbs() {
  static const std::vector<Verb> table = {
      {"inspect", "sizes, forms, classes, copies and bad files of a data set", inspect_verb},
      {"pack", "a zip or folder of prepared pictures, for gantrain and others", pack_verb},
  };
  return table;
}

int data_verb(const std::vector<std::string>& arguments) {
  const std::string what = arguments.empty() ? "--help" : arguments.front();
  std::vector<std::string> names;
  for (const Verb& verb : data_verbs()) {
    if (what == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
  }
  if (what == "--help" || what == "-h") {
    fmt::print("gantrain data WHAT\n\n");
    for (const Verb& verb : data_verbs()) fmt::print("  {:<12} {}\n", verb.name, verb.about);
    return 0;
  }
  const std::string hint = did_you_mean(what, names);
  fail(Exit::kUsage,
       "gantrain data {}{}",
       what,
       hint.empty() ? ": there is " + join(names, ", ") : hint);
}

}  // namespace gantrain
