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

#include "config/resolve.h"
#include "core/parallel.h"
#include "data/pictures/manifest.h"
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
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A combination whose profile lacks more than this share of the wanted one may be further than a
// thousandth of the distance that the weights have moved from the true average: with 64 snapshots,
// 1.1e-3 was measured for the length 0.25, which lacks 0.0146 of its profile.
constexpr double kLargestMisfit = 0.0125;
constexpr double kLargestRounding = 0.01;  // of which nobody is warned

// Says what is wrong with an average: a warning where it is much, and the user wanted that length.
void tell_errors(const AveragedModel& average, const fs::path& run) {
  const bool wanted = environment_variable(kLengthsVariable).empty();
  const auto tell = [&](bool much, const std::string& text) {
    log_line(much && wanted ? Level::kWarning : Level::kInfo, one_line(text));
  };
  if (average.misfit > kLargestMisfit)
    tell(true,
         fmt::format("length {}: the snapshots in {} up to {} kimg give {:.1f} % of its profile "
                     "wrong: they are too few for it; see ema.snapshot_every",
                     shortest(average.length),
                     run.string(),
                     kimg_text(average.images),
                     100 * average.misfit));
  if (average.rounding == 0) return;
  const bool much = average.rounding > kLargestRounding;
  tell(much,
       fmt::format("length {}: the rounding of bf16 snapshots is about {:.2g} of the distance "
                   "moved since the first one{}",
                   shortest(average.length),
                   average.rounding,
                   much ? "; ema.snapshot_type=full has none" : ""));
}

// Writes the averages that end at the same place.
void write_models(const AverageRequest& request,
                  std::optional<int64_t> until,
                  std::vector<ComparedModel>& files) {
  for (const AveragedModel& average : average_models(request.run, request.lengths, until)) {
    tell_errors(average, request.run);
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

// How the models are measured.
MetricsRequest measurement(const AverageRequest& request) {
  MetricsRequest metrics;
  metrics.names = {request.by};
  metrics.data = request.data;
  metrics.run = request.run;
  metrics.how.cuda = request.cuda;
  metrics.detector = request.detector;
  metrics.detector_sha256 = request.detector_sha256;
  metrics.lite0 = request.lite0;
  metrics.fake_count = request.fake_count;
  metrics.threads = request.threads;
  metrics.cache = request.cache;
  return metrics;
}

// "length 0.1", "length 0.1 at 13.6 kimg", "model-best.safetensors".
std::string name_of(const ComparedModel& model, bool ends) {
  if (!model.length) return kBestModel;
  const std::string at = ends ? fmt::format(" at {} kimg", shortest(model.kimg)) : "";
  return fmt::format("length {}{}", shortest(*model.length), at);
}

// Returns the best one that is measured; null where no value is a number.
const ComparedModel* best_of(const std::vector<ComparedModel>& models, const MetricRow& metric) {
  const ComparedModel* best = nullptr;
  for (const ComparedModel& model : models) {
    if (model.value && (best == nullptr || metric.is_better(*model.value, *best->value)))
      best = &model;
  }
  return best;
}

// A hash of what the values depend on beside the models, contents of files included: those of the
// pictures as far as a look at so many tells.
std::string settings_of(const AverageRequest& request) {
  Json settings = {kVersion, request.cuda, message_of(measurement(request).fake_count)};
  for (const std::string& file : {request.detector, request.lite0})
    settings.push_back(file.empty() ? "" : sha256(read_file(file)));
  if (auto data = data_of_run(fs::path(request.run) / "model", request.data)) {
    data->cache_mb = 0;  // no picture is loaded here
    settings.push_back(message_of(*data));
    settings.push_back(sampled_digest(*open_dataset(*data)));
  }
  return sha256(settings.dump());
}

// The comparison that the folder holds; nothing where it is an earlier program's, or broken.
std::optional<ComparedModels> compared_before(const fs::path& file) {
  try {
    return read_state_file<ComparedModels>(file);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

// Takes the values of the same models, where they would be measured as they were then.
void take_values(const std::optional<ComparedModels>& before, ComparedModels& now) {
  if (!before || before->metric != now.metric || before->settings != now.settings) return;
  for (ComparedModel& model : now.models) {
    const auto same =
        std::ranges::find(before->models, model.sha256, [](const auto& m) { return m.sha256; });
    if (same == before->models.end() || !same->measured) continue;
    model.value = same->value;
    model.measured = true;
  }
}

// Each value is written as it comes, so that the same command goes on where it was stopped.
void compare(const AverageRequest& request, std::vector<ComparedModel> models) {
  const MetricRow& metric = find_metric(request.by);
  const fs::path own = fs::path(request.run) / kBestModel;
  if (fs::exists(own)) models.push_back({own.string(), {}, 0});
  for (ComparedModel& model : models) model.sha256 = sha256(read_file(model.file));
  const fs::path file = fs::path(request.output) / kAveragesFile;
  ComparedModels all{metric.name, settings_of(request), std::move(models), ""};
  take_values(compared_before(file), all);
  const bool ends = request.ends.size() > 1;
  size_t shown = 0;
  const auto show = [&] {
    for (; shown < all.models.size() && all.models[shown].measured; ++shown) {
      const ComparedModel& model = all.models[shown];
      const double value = model.value.value_or(NAN);
      print_text("{}  {} {:.5g}  {}\n", name_of(model, ends), metric.name, value, model.file);
    }
  };
  std::vector<ComparedModel*> left;
  std::vector<std::string> files;
  for (ComparedModel& model : all.models) {
    if (model.measured) continue;
    left.push_back(&model);
    files.push_back(model.file);
  }
  show();
  measure_models(measurement(request), files, [&](size_t i, const Json& line) {
    const Json& number = line["results"][metric.key];
    if (number.is_number()) left[i]->value = number.get<double>();
    left[i]->measured = true;
    write_state_file(file, all);
    show();
  });
  const ComparedModel* best = best_of(all.models, metric);
  all.best = best == nullptr ? "" : best->file;
  write_state_file(file, all);
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
