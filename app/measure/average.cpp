// SPDX-License-Identifier: Apache-2.0
// `gantrain average`: models of a run's snapshots of averages, and which of them is best; and
// `gantrain features FILE`.

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "main/requests.h"
#include "metrics/metric_table.h"
#include "nn/lite0_file.h"
#include "nn/script_features.h"
#include "train/average/snapshots.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A model that was written, with its length.
struct AverageFile {
  fs::path path;
  std::string length;
  double value = NAN;  // of the metric
};

// A combination whose profile lacks more than this share of the wanted one may be further than a
// thousandth of the distance that the weights have moved from the true average: with 64 snapshots,
// 1.1e-3 was measured for the length 0.25, which lacks 0.0146 of its profile.
constexpr double kLargestMisfit = 0.0125;
constexpr double kLargestRounding = 0.01;  // of which nobody is warned

void warn_of_errors(const AveragedModel& average, const fs::path& run) {
  if (average.misfit > kLargestMisfit)
    warn(
        "length {}: the snapshots in {} give {:.1f} % of its profile wrong: they are too few for "
        "it; see ema.snapshot_every",
        shortest(average.length),
        run.string(),
        100 * average.misfit);
  if (average.rounding == 0) return;
  const std::string said = fmt::format(
      "length {}: the rounding of bf16 snapshots is about {:.2g} of the distance moved since the "
      "first one",
      shortest(average.length),
      average.rounding);
  if (average.rounding > kLargestRounding)
    warn("{}; ema.snapshot_type=full has none", said);
  else
    info("{}", said);
}

std::vector<AverageFile> write_models(const AverageRequest& request) {
  const fs::path run = request.run, folder = request.output;
  const std::vector<AveragedModel> models = average_models(run, request.lengths);
  make_writable_folder(folder);
  // average-000200.000.safetensors -> 000200.000
  const std::string newest = find_averages(run).front().path.stem().string();
  const std::string at = newest.substr(newest.find('-') + 1);
  std::vector<AverageFile> files;
  for (const AveragedModel& average : models) {
    warn_of_errors(average, run);
    const std::string length = shortest(average.length);
    const fs::path path = folder / fmt::format("average-{}-{}.safetensors", at, length);
    write_model(path, average.model);
    files.push_back({path, length});
  }
  return files;
}

// The value by which a model is compared.
double measured(const AverageRequest& request, const fs::path& model) {
  MetricsRequest one;
  one.how.model = model.string();
  one.names = {request.by};
  one.data = request.data;
  one.run = request.run;
  one.detector = request.detector;
  one.lite0 = request.lite0;
  one.fake_count = request.fake_count;
  one.threads = request.threads;
  one.cache = request.cache;
  const Json lines = metric_lines(one);
  const Json& value = lines.at(0)["results"][find_metric(request.by).key];
  return value.is_number() ? value.get<double>() : NAN;
}

void compare(const AverageRequest& request, std::vector<AverageFile>& files) {
  const MetricRow& metric = find_metric(request.by);
  const AverageFile* best = nullptr;
  for (AverageFile& file : files) {
    file.value = measured(request, file.path);
    print_text(
        "length {}  {} {:.5g}  {}\n", file.length, metric.name, file.value, file.path.string());
    if (!std::isfinite(file.value)) continue;
    const bool better = best == nullptr || (metric.lower_is_better ? file.value < best->value
                                                                   : file.value > best->value);
    if (better) best = &file;
  }
  if (best == nullptr) return warn("{} is no number for any of them", metric.name);
  print_text("best    length {}  {} {:.5g}\n", best->length, metric.name, best->value);
  info("next    {}", generate_command(best->path.string()));
}

}  // namespace

int average(const AverageRequest& request) {
  use_threads(request.threads);
  std::vector<AverageFile> files = write_models(request);
  if (!request.by.empty()) {
    compare(request, files);
    return 0;
  }
  for (const AverageFile& file : files) print_text("{}\n", file.path.string());
  info("next    {}", generate_command(files.back().path.string()));
  return 0;
}

int check_features(const FeaturesRequest& request) {
  if (is_torchscript(request.file)) {
    std::vector<std::string> taps;
    if (!request.taps.empty()) {
      for (const std::string& tap : split(request.taps, ',')) taps.push_back(trim(tap));
    }
    const ScriptFeatures network({.file = request.file, .taps = taps});
    fmt::print("{}\n", network.description());
    return 0;
  }
  if (!request.taps.empty())
    fail(Exit::kUsage, "--taps {}: {} is no TorchScript", request.taps, request.file);
  const Lite0Weights weights = read_lite0(request.file);
  int64_t numbers = 0;
  for (const auto& item : weights.tensors) numbers += item.second.numel();
  fmt::print("{}: {} tensors, {} numbers\n", describe(weights), weights.tensors.size(), numbers);
  return 0;
}

}  // namespace gantrain
