// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli.h"
#include "config/message.h"
#include "drawing_flags.h"
#include "metrics/metric_table.h"
#include "metrics_request.h"
#include "trainer_library.h"
#include "util/cache_folder.h"
#include "util/cores.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct MetricsFlags {
  std::string names, resolution, fit, filter, fake_count, real_count, seed = "0", ranks = "1";
};

std::string about() {
  std::string text =
      "Measures a generator, two sets of pictures, or two sets of features. Metrics:\n";
  for (const MetricRow& row : metric_table())
    text += fmt::format("  {:<10} {}{}\n", row.name, row.help, row.needs_detector ? " *" : "");
  return text +
         "* needs --detector FILE: a TorchScript network, such as StyleGAN2-ADA's "
         "inception-2015-12-05.pt";
}

void add_flags(CLI::App& app, MetricsFlags& flags, MetricsRequest& request) {
  app.add_option("--metrics", flags.names, "names with commas between (see above)");
  app.add_option("--data", request.data, "the reals (default: those that the run was trained on)");
  app.add_option("--images", request.images, "REAL FAKE: two folders or archives of pictures")
      ->expected(2);
  app.add_option("--features", request.features, "REAL.npy FAKE.npy: [N, F] float32 or float64")
      ->expected(2);
  app.add_option(
      "--probs", request.probabilities, "with --features: class probabilities of the fakes, .npy");
  app.add_option("--detector", request.detector, "TorchScript file of the network for features");
  app.add_option("--num-images",
                 flags.fake_count,
                 "fakes (50000; 16384 for metrics without a detector; all of --images)");
  app.add_option("--num-reals", flags.real_count, "reals (all)");
  app.add_option("--seed", flags.seed, "of latents and of all that is drawn (0)");
  app.add_option("--nproc", flags.ranks, "processes of this machine that share the work (1)");
  app.add_option(
      "--resolution", flags.resolution, "pixels that pictures are brought to: 64, 256x128");
  app.add_option("--fit", flags.fit, "how reals get that shape: crop, pad or stretch");
  app.add_option("--filter", flags.filter, "for that: lanczos, bicubic, bilinear or box");
  app.add_flag("--mirror", request.mirror, "count each real flipped, too (fid50k_full does not)");
  app.add_flag("--per-class", request.per_class, "also for each class by itself");
  app.add_flag("--all-models", request.all_models, "every model of a run, oldest first");
  app.add_flag("--json", request.json, "one JSON line a metric on standard output");
}

int64_t default_threads(int64_t ranks) { return std::max<int64_t>(1, usable_cores() / ranks); }

void read_flags(const MetricsFlags& flags, MetricsRequest& request) {
  const Allowed counts = {1, 1e9, "1 or more"};
  request.names = parse_metrics("--metrics", flags.names);
  if (request.names.empty() && !flags.names.empty())
    fail(Exit::kUsage, "--metrics {}: leaves nothing to do", flags.names);
  if (!flags.fake_count.empty())
    request.fake_count = parse_integer("--num-images", flags.fake_count, counts);
  if (!flags.real_count.empty())
    request.real_count = parse_integer("--num-reals", flags.real_count, counts);
  request.seed = parse_integer("--seed", flags.seed, {0, 9e15, "a number from 0 on"});
  request.ranks = parse_integer("--nproc", flags.ranks, {1, 64, "1 to 64"});
  request.threads = default_threads(request.ranks);
  if (!flags.resolution.empty()) {
    request.resolution = parse_size(flags.resolution);
    if (!request.resolution || request.resolution->shorter() < 4 ||
        request.resolution->longer() > 4096)
      fail(Exit::kUsage,
           "--resolution {}: pixels a side, or width x height, from 4 to 4096: 256, 256x128",
           flags.resolution);
  }
  if (!flags.fit.empty()) request.fit = parse_word<Fit>("--fit", flags.fit);
  if (!flags.filter.empty()) request.filter = parse_word<Filter>("--filter", flags.filter);
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
void check_subject(MetricsRequest& request, const CLI::App& app, const DrawingFlags& drawing) {
  const bool model = app.count("MODEL") + app.count("--model") > 0;
  const int given =
      (model ? 1 : 0) + (request.images.empty() ? 0 : 1) + (request.features.empty() ? 0 : 1);
  if (given != 1) {
    fail(Exit::kUsage,
         "metrics: {}; give one of RUN or MODEL, --images REAL FAKE, --features REAL.npy FAKE.npy",
         given == 0 ? "of what?" : "these exclude each other");
  }
  if (model) request.how = drawing.request("metrics");
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
      fail(Exit::kUsage, "is needs class probabilities: --probs FAKE.npy");
  }
}

}  // namespace

int metrics_verb(const std::vector<std::string>& arguments) {
  CLI::App app(about(), "gantrain metrics");
  MetricsFlags flags;
  DrawingFlags drawing;
  MetricsRequest request;
  drawing.add_to(app);
  add_flags(app, flags, request);
  if (!parse(app, arguments)) return 0;
  read_flags(flags, request);
  check_subject(request, app, drawing);
  check_names(request);
  check_exists("--detector", request.detector);
  check_exists("--data", request.data);
  check_exists("--probs", request.probabilities);
  for (const std::string& file : request.images) check_exists("--images", file);
  for (const std::string& file : request.features) check_exists("--features", file);
  request.cache = cache_folder("metrics").string();
  return call_trainer("metrics", message_of(request).dump(), request.how.cuda);
}

}  // namespace gantrain
