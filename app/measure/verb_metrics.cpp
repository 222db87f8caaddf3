// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "command/options.h"
#include "draw/requests.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "metrics/metric_table.h"
#include "util/error.h"
#include "util/file.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

std::string about_metrics() {
  std::string text =
      "Measures a generator, two sets of pictures, or two sets of features. Metrics:\n";
  for (const MetricRow& row : metric_table())
    text += fmt::format("  {:<10} {}{}\n", row.name, row.help, row.needs_detector ? " *" : "");
  return text +
         "* needs --detector FILE: a TorchScript network, such as StyleGAN2-ADA's "
         "inception-2015-12-05.pt. It is a program: see gantrain help metrics";
}

// Pictures may be computed, or come from a pattern of shards such as {000..010}.tar or *.tar.
void check_exists(const std::string& flag, const std::string& file) {
  std::error_code error;
  const bool pictures = flag == "--data" || flag == "--images";
  const bool computed = starts_with(file, "synth:");
  if (pictures && (computed || file.find_first_of("{*?[") != std::string::npos)) return;
  if (!file.empty() && !std::filesystem::exists(file, error))
    fail(Exit::kInput, "{} {}: no such file or folder", flag, file);
}

// What is compared: a model, pictures or features.
void check_subject(MetricsRequest& request, const Options& options) {
  const bool model = options.given("MODEL") || options.given("--model");
  const int given =
      (model ? 1 : 0) + (request.images.empty() ? 0 : 1) + (request.features.empty() ? 0 : 1);
  if (given != 1) {
    fail(Exit::kUsage,
         "metrics: {}; give one of RUN or MODEL, --images REAL FAKE, --features REAL.npy FAKE.npy",
         given == 0 ? "of what?" : "these exclude each other");
  }
  if (model) {
    decide_model("metrics", request.how);
  } else {
    request.how = {};  // what is said of a model is of none
  }
  if (!model && !request.data.empty())
    fail(Exit::kUsage, "--data {}: --images and --features bring their own reals", request.data);
  if (request.resolution && request.images.empty()) {
    fail(Exit::kUsage,
         "--resolution {}: goes with --images; the reals of a model get the size of its pictures",
         to_text(*request.resolution));
  }
  if (!request.probabilities.empty() && request.features.empty())
    fail(Exit::kUsage, "--probs {}: goes with --features", request.probabilities);
  if (!request.features.empty() && !request.detector.empty())
    fail(Exit::kUsage, "--detector {}: features need none", request.detector);
  if (request.how.cuda && request.ranks > 1)
    fail(Exit::kUsage,
         "--nproc {}: processes share a CPU's work; leave it out on a GPU",
         request.ranks);
}

// What does not depend on the files, so that it is said at once.
void check_names(MetricsRequest& request) {
  MetricGround ground;
  ground.generator = !request.how.model.empty();
  ground.detector = !request.detector.empty() || !request.features.empty();
  ground.shapes = true;  // known when the data is
  check_metrics(request.names, ground);
  for (const std::string& name : request.names) {
    if (!request.features.empty() && !find_metric(name).needs_detector)
      fail(Exit::kUsage, "{} looks at pictures, not at features: --images REAL FAKE", name);
    if (!request.features.empty() && name == "is" && request.probabilities.empty())
      fail(Exit::kUsage, "the metric \"is\" needs class probabilities: --probs FAKE.npy");
  }
}

int run_metrics(MetricsRequest& request, Options& options) {
  request.names = parse_metrics("--metrics", request.metrics);
  if (request.names.empty() && !request.metrics.empty())
    fail(Exit::kUsage, "--metrics {}: then nothing is measured; leave it out", request.metrics);
  request.threads = std::max<int64_t>(1, usable_cores() / request.ranks);
  check_subject(request, options);
  check_names(request);
  check_exists("--detector", request.detector);
  check_exists("--data", request.data);
  check_exists("--probs", request.probabilities);
  for (const std::string& file : request.images) check_exists("--images", file);
  for (const std::string& file : request.features) check_exists("--features", file);
  request.cache = cache_folder("metrics").string();
  return call_trainer("metrics", request, request.how.cuda);
}

constexpr int64_t kMostFakes = 10'000;  // the trainer library's own limit

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

int run_nn(NearestRequest& request, Options&) {
  decide_model("nn", request.how);
  if (!request.seeds.empty() && !request.images.empty())
    fail(Exit::kUsage, "--seeds and --images exclude each other");
  if (request.images.empty() && request.seeds.empty())
    request.seeds = parse_seeds("--seeds", "0-15");
  if (request.seeds.size() > kMostFakes) {
    fail(Exit::kUsage,
         "--seeds {}: {} pictures, and at most {} are compared at a time",
         request.seeds.text(),
         request.seeds.size(),
         kMostFakes);
  }
  check_files(request);
  return call_trainer("nn", request, request.how.cuda);
}

}  // namespace

Verb metrics_verb() {
  return verb_of("metrics",
                 "FID and others of a model, of pictures or of features",
                 about_metrics(),
                 run_metrics);
}

Verb nn_verb() {
  return verb_of("nn",
                 "the real pictures nearest to generated ones: is it copying?",
                 "Finds the real pictures that are nearest to generated ones, by pixels and by "
                 "features, to see whether a generator copies its data.",
                 run_nn);
}

}  // namespace gantrain
