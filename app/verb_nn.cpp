// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli.h"
#include "config/message.h"
#include "draw/ranges.h"
#include "drawing_flags.h"
#include "explore/requests.h"
#include "trainer_library.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct NearestFlags {
  std::string seeds, count = "3";
};

constexpr int64_t kMostFakes = 10'000;  // the trainer library's own limit

std::vector<int64_t> seeds_of(const std::string& text) {
  const SeedList seeds = parse_seeds("--seeds", text);
  if (seeds.size() > kMostFakes) {
    fail(Exit::kUsage,
         "--seeds {}: {} fakes, at most {} are compared at a time",
         text,
         seeds.size(),
         kMostFakes);
  }
  return seeds.numbers();
}

void add_flags(CLI::App& app, NearestFlags& flags, NearestRequest& request) {
  app.add_option("--seeds,--seed", flags.seeds, "fakes of these seeds: 0-63,85 (default 0-15)");
  app.add_option("--images", request.images, "fakes instead of seeds: a folder or zip of pictures");
  app.add_option("--data", request.data, "the reals (default: those that the run was trained on)");
  app.add_option("--detector",
                 request.detector,
                 "TorchScript file whose features are compared (default: a random network's)");
  app.add_option("--count,-k", flags.count, "nearest reals of each fake (3)");
  app.add_option("-o,--sheet", request.sheet, "PNG: fake, nearest by pixels, nearest by features");
  app.add_flag("--json", request.json, "one JSON line on standard output");
}

void check_files(const NearestRequest& request) {
  std::error_code error;
  for (const auto& [flag, file] :
       {std::pair("--images", &request.images), std::pair("--detector", &request.detector)}) {
    if (!file->empty() && !std::filesystem::exists(*file, error))
      fail(Exit::kInput, "{} {}: no such file or folder", flag, *file);
  }
  if (request.sheet.empty() && !request.json)
    fail(Exit::kUsage, "nn: where to? -o SHEET.png, --json or both");
  if (request.sheet.empty()) return;
  if (!ends_with(lower(request.sheet), ".png"))
    fail(Exit::kUsage, "-o {}: the sheet is a PNG; give a name ending in .png", request.sheet);
  check_folder_of("-o", request.sheet);
}

}  // namespace

int nn_verb(const std::vector<std::string>& arguments) {
  CLI::App app(
      "The real pictures nearest to generated ones, by pixels and by features: whether a generator "
      "copies its data.",
      "gantrain nn");
  NearestFlags flags;
  DrawingFlags drawing;
  NearestRequest request;
  add_flags(app, flags, request);
  drawing.add_to(app);
  if (!parse(app, arguments)) return 0;
  request.how = drawing.request("nn");
  if (!flags.seeds.empty() && !request.images.empty())
    fail(Exit::kUsage, "--seeds and --images exclude each other");
  if (request.images.empty()) request.seeds = seeds_of(flags.seeds.empty() ? "0-15" : flags.seeds);
  request.count = parse_integer("--count", flags.count, {1, 100, "1 to 100"});
  check_files(request);
  return call_trainer("nn", message_of(request).dump(), request.how.cuda);
}

}  // namespace gantrain
