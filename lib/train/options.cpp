// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "metrics/metric_table.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

void check_beginning(const RunOptions& o) {
  const bool named = o.resume != "auto" && o.resume != "none";
  if (!named || o.init_from.empty()) return;
  fail(Exit::kUsage,
       "--resume {} and --init-from {}: a run goes on from a state, or begins anew at the weights "
       "of "
       "a model; leave one out",
       o.resume,
       o.init_from);
}

void check_graphs(const TrainOptions& options, bool on_gpu) {
  if (on_gpu) return;
  if (options.sync_debug) {
    fail(Exit::kUsage,
         "train.sync_debug = on: a CPU waits for no device, so nothing can be seen; give --device "
         "cuda, or leave it off");
  }
  if (options.graphs != Graphs::kOn) return;
  fail(Exit::kUsage,
       "train.graphs = on: CUDA graphs need GPUs and this run is on a CPU; give --graphs auto, or "
       "--device cuda");
}

namespace {

// Throws UserError(kInput) for a file that cannot be read, unless it is "".
void check_readable(const char* flag, const std::string& file, const char* needed) {
  std::error_code error;
  if (file.empty()) return;
  if (std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), R_OK) == 0) return;
  fail(Exit::kInput, "{} {}: no such file, or not readable; {}", flag, file, needed);
}

}  // namespace

std::vector<std::string> metric_names(const MetricsOptions& metrics, const SaveOptions& save) {
  std::vector<std::string> wanted = parse_metrics("metrics.names", metrics.names);
  const std::string& best = save.keep_best;
  if (best.empty()) return wanted;
  const std::vector<std::string> one = parse_metrics("save.keep_best", best);
  if (one.size() != 1) fail(Exit::kUsage, "save.keep_best = {}: one metric is expected", best);
  if (!contains(wanted, one[0])) wanted.push_back(one[0]);
  return wanted;
}

void check_metric_options(const MetricsOptions& metrics,
                          const SaveOptions& save,
                          const std::string& data_path) {
  if (metrics.every && metrics.every->images < 1) {
    fail(Exit::kUsage,
         "metrics.every = {}: allowed: auto, or at least 0.001 kimg",
         shortest(static_cast<double>(metrics.every->images) / 1e3));
  }
  const bool shapes = data_path == "synth:shapes";
  check_metrics(metric_names(metrics, save),
                {.detector = !metrics.detector.empty(),
                 .lite0 = !metrics.features.empty(),
                 .shapes = shapes,
                 .attributes = data_path == "synth:shapes-attributes"});
  check_readable("--detector", metrics.detector, "a TorchScript file is needed");
  check_readable(
      "--features",
      metrics.features,
      "weights of EfficientNet-Lite0 are needed (gantrain features says where to get them)");
}

std::optional<int64_t> models_kept(const ModelOptions& models, const SaveOptions& save) {
  if (models.keep == "all") return std::nullopt;
  if (models.keep == "best") {
    if (!save.keep_best.empty()) return 1;
    fail(Exit::kUsage,
         "save.keep_models = best: by which metric? Give --keep-best METRIC, too, for example "
         "--keep-best swd");
  }
  const std::optional<int64_t> count = parse_int(models.keep);
  if (!count || *count < 1) {
    fail(Exit::kUsage,
         "save.keep_models = {}: allowed: all, best, or a number of at least 1",
         models.keep);
  }
  return count;
}

bool is_among(const std::string& key, std::initializer_list<std::string_view> keys_and_sections) {
  return std::any_of(
      keys_and_sections.begin(), keys_and_sections.end(), [&key](std::string_view one) {
        return ends_with(one, ".") ? starts_with(key, one) : key == one;
      });
}

bool is_forced(const std::string& force, const std::string& what) {
  const std::vector<std::string> forced = split(force, ',');
  return std::any_of(
      forced.begin(), forced.end(), [&](const std::string& f) { return f == what || f == "all"; });
}

}  // namespace gantrain
