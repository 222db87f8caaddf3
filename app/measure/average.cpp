// SPDX-License-Identifier: Apache-2.0
// `gantrain average`: models of a run's snapshots of averages, and which of them is best; and
// `gantrain features FILE`.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "main/requests.h"
#include "metrics/metric_table.h"
#include "nn/lite0_file.h"
#include "nn/script_features.h"
#include "train/average/snapshots.h"
#include "train/plan/plan.h"
#include "train/save/run_folder.h"
#include "tune/finetune.h"
#include "tune/state_file.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A combination whose profile lacks more than this share of the wanted one may be further than a
// thousandth of the distance that the weights have moved from the true average: with 64 snapshots,
// 1.1e-3 was measured for the length 0.25, which lacks 0.0146 of its profile.
constexpr double kLargestMisfit = 0.0125;
constexpr double kLargestRounding = 0.01;  // of which nobody is warned

void warn_of_errors(const AveragedModel& average, const fs::path& run) {
  if (average.misfit > kLargestMisfit)
    warn(
        "length {}: the snapshots in {} up to {} kimg give {:.1f} % of its profile wrong: they are "
        "too few for it; see ema.snapshot_every",
        shortest(average.length),
        run.string(),
        kimg_text(average.images),
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

// Writes the averages that end at the same place.
void write_models(const AverageRequest& request,
                  std::optional<int64_t> until,
                  std::vector<ComparedModel>& files) {
  for (const AveragedModel& average : average_models(request.run, request.lengths, until)) {
    warn_of_errors(average, request.run);
    const fs::path path =
        fs::path(request.output) / fmt::format("average-{}-{}.safetensors",
                                               kimg_name(average.images, /*fractions=*/true),
                                               shortest(average.length));
    write_model(path, average.model);
    files.push_back({path.string(), average.length, kimg_of(average.images)});
  }
}

std::vector<ComparedModel> write_models(const AverageRequest& request) {
  std::vector<ComparedModel> files;
  make_writable_folder(request.output);
  if (request.ends.empty()) write_models(request, std::nullopt, files);
  std::set<int64_t> written;  // ends
  for (const Kimg& end : request.ends) {
    const auto snapshots = find_averages(request.run);
    const auto newest = std::ranges::find_if(
        snapshots, [&](const NumberedFile& file) { return file.images <= end.images; });
    const int64_t until = newest == snapshots.end() ? end.images : newest->images;
    if (written.insert(until).second) write_models(request, until, files);
  }
  return files;
}

// The value by which a model is compared.
double measured(const AverageRequest& request, const std::string& model) {
  MetricsRequest one;
  one.how.model = model;
  one.names = {request.by};
  one.data = request.data;
  one.run = request.run;
  one.how.cuda = request.cuda;
  one.detector = request.detector;
  one.detector_sha256 = request.detector_sha256;
  one.lite0 = request.lite0;
  one.fake_count = request.fake_count;
  one.threads = request.threads;
  one.cache = request.cache;
  const Json lines = metric_lines(one);
  const Json& value = lines.at(0)["results"][find_metric(request.by).key];
  return value.is_number() ? value.get<double>() : NAN;
}

// "length 0.1", "length 0.1 at 13.6 kimg", "model-best.safetensors".
std::string name_of(const ComparedModel& model, bool ends) {
  if (!model.length) return kBestModel;
  const std::string at = ends ? fmt::format(" at {} kimg", shortest(model.kimg)) : "";
  return fmt::format("length {}{}", shortest(*model.length), at);
}

void compare(const AverageRequest& request, std::vector<ComparedModel> models) {
  const MetricRow& metric = find_metric(request.by);
  const fs::path own = fs::path(request.run) / kBestModel;
  if (fs::exists(own)) models.push_back({own.string(), {}, 0});
  const ComparedModel* best = nullptr;
  const bool ends = request.ends.size() > 1;
  for (ComparedModel& model : models) {
    const double value = measured(request, model.file);
    print_text("{}  {} {:.5g}  {}\n", name_of(model, ends), metric.name, value, model.file);
    if (!std::isfinite(value)) continue;
    model.value = value;
    const bool better =
        best == nullptr || (metric.lower_is_better ? value < *best->value : value > *best->value);
    if (better) best = &model;
  }
  write_state_file(fs::path(request.output) / kAveragesFile,
                   ComparedModels{metric.name, models, best == nullptr ? "" : best->file});
  if (best == nullptr) return warn("{} is no number for any of them", metric.name);
  print_text("best    {}  {} {:.5g}\n", name_of(*best, ends), metric.name, *best->value);
  info("next    {}", generate_command(best->file));
}

}  // namespace

int average(const AverageRequest& request) {
  use_threads(request.threads);
  const std::vector<ComparedModel> files = write_models(request);
  if (!request.by.empty()) {
    compare(request, files);
    return 0;
  }
  for (const ComparedModel& file : files) print_text("{}\n", file.file);
  info("next    {}", generate_command(files.back().file));
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
