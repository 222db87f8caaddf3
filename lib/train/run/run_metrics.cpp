// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_metrics.h"

#include <cmath>

#include "config/config.h"
#include "core/safetensors.h"
#include "core/torch.h"
#include "distributed/group.h"
#include "metrics/metric_table.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

double kimg_of(int64_t images) { return static_cast<double>(images) / 1e3; }

// Throws UserError(kInput) where the model is not the one that the record is about: a session that
// ended between the two files leaves a newer model. Models of earlier versions do not tell.
void check_model(const fs::path& model, double kimg) {
  const TensorFile file = load_safetensors(model);
  const auto own = file.metadata.find("gantrain.kimg");
  if (own == file.metadata.end() || parse_double(own->second) == kimg) return;
  fail(Exit::kInput,
       "{}: is of {} kimg, {} is about {}",
       model.string(),
       own->second,
       KeepBest::kRecord,
       shortest(kimg));
}

// Returns the record of a folder, or nothing where there is none. Throws UserError(kInput) where it
// is broken, or about another model.
std::optional<BestModel> read_best(const fs::path& folder) {
  const fs::path path = folder / KeepBest::kRecord;
  if (!fs::exists(path) || !fs::exists(folder / KeepBest::kModel)) return std::nullopt;
  const Json json = parse_json(read_file(path), path.string(), Exit::kInput);
  const auto has = [&](const char* key, auto is) { return json.contains(key) && is(json[key]); };
  const auto is_number = [](const Json& value) { return value.is_number(); };
  const bool sound = json.is_object() && has("value", is_number) && has("kimg", is_number) &&
                     has("metric", [](const Json& value) { return value.is_string(); });
  if (!sound) fail(Exit::kInput, "{}: metric, value or kimg is missing", path.string());
  check_model(folder / KeepBest::kModel, json["kimg"]);
  return BestModel{json["metric"], json["value"], json["kimg"], json.value("recipe", Json())};
}

MetricTimes times_of(const Counters& c) {
  return {.run = c.seconds, .metrics = c.metric_seconds, .last = c.last_metric_seconds};
}

std::string line_of(const MetricResult& result) {
  std::string text;
  for (const auto& [name, value] : result.results.items()) {
    text += value.is_number() ? fmt::format("  {} {:.4g}", name, value.get<double>())
                              : fmt::format("  {} not finite", name);
  }
  return text;
}

}  // namespace

KeepBest::KeepBest(fs::path folder, const std::string& metric, int64_t images_seen)
    : folder_(std::move(folder)), metric_(find_metric(metric).name) {
  try {
    best_ = read_best(folder_);
  } catch (const UserError& e) {
    if (e.code() != Exit::kInput) throw;
    forget(e.what());
  }
  if (!best_) return;
  if (best_->metric != metric_) {
    forget(fmt::format("{} was chosen by {}", kModel, best_->metric));
  } else if (best_->kimg > kimg_of(images_seen)) {
    forget(fmt::format(
        "{} is of {} kimg, which this run leaves behind", kModel, shortest(best_->kimg)));
  } else {
    info("best    {} {:.4g} at {} kimg so far", metric_, best_->value, shortest(best_->kimg));
  }
}

void KeepBest::forget(const std::string& why) {
  best_.reset();
  for (const char* name : {kModel, kRecord}) {
    std::error_code error;
    fs::rename(folder_ / name, folder_ / (std::string("superseded-") + name), error);
  }
  warn("{}: the search for the best model begins anew (the old one: superseded-*)", why);
}

bool KeepBest::is_better(double value) const {
  if (!best_) return true;
  return find_metric(metric_).lower_is_better ? value < best_->value : value > best_->value;
}

bool KeepBest::offer(const Json& line, int64_t images_seen, const SaveModel& save) {
  if (line.at("metric") != metric_) return false;
  const Json& results = line.at("results");
  const char* key = find_metric(metric_).key;
  if (!results.contains(key) || !results[key].is_number()) return false;
  const auto value = results[key].get<double>();
  if (!std::isfinite(value)) return false;
  const Json recipe = line.value("recipe", Json());
  if (best_ && !same_recipe(best_->recipe, recipe))
    forget(fmt::format("{} was measured by another recipe", metric_));
  if (!is_better(value)) return false;
  best_ = BestModel{metric_, value, kimg_of(images_seen), recipe};
  const Json record = {{"metric", metric_},
                       {"value", value},
                       {"kimg", best_->kimg},
                       {"recipe", recipe},
                       {"results", results},
                       {"model", kModel}};
  save(folder_ / kModel,
       [path = folder_ / kRecord, text = record.dump(2) + "\n"] { write_file(path, text); });
  info("best    {} {:.4g} at {} kimg: {}", metric_, value, shortest(best_->kimg), kModel);
  return true;
}

RunMetrics::RunMetrics(Site site,
                       const EvaluationSubject& subject,
                       const MetricsOptions& metrics,
                       const SaveOptions& save,
                       Kimg run)
    : site_(std::move(site)),
      names_(metric_names(metrics, save)),
      options_(metrics),
      keep_best_(save.keep_best),
      cadence_(metrics.every, run, site_.adapts),
      evaluation_(site_.group, site_.device, subject, metrics, site_.wants_stop),
      distinctness_(site_.group, subject.generator, subject.dataset, subject.seed),
      alarm_(metrics.collapse) {
  if (!names_.empty()) evaluation_.check(names_);
}

void RunMetrics::open(const std::filesystem::path& folder, const Counters& counters) {
  if (!names_.empty()) {
    info("metrics {} of {} pictures, every {} kimg{}{}",
         join(names_, ", "),
         options_.images,
         kimg_text(cadence_.images()),
         cadence_.adapts() ? fmt::format(" or less often, to take under {:.0f} % of the time",
                                         100 * MetricCadence::kLargestShare)
                           : "",
         detector() == nullptr ? ""
                               : fmt::format("; detector {}, sha256 {}",
                                             detector()->name(),
                                             detector()->sha256().substr(0, 12)));
  }
  if (options_.collapse.stop_on == StopOn::kCollapse && !distinctness_.is_measurable())
    warn("--stop-on collapse: the data has too few pictures to tell; the run will not end by it");
  if (!keep_best_.empty()) best_.emplace(folder, keep_best_, counters.images_seen);
}

// Whether rank 0's clock allows one more measurement; the same on all ranks.
bool RunMetrics::affords(const MetricTimes& times) {
  if (!cadence_.adapts()) return true;
  at::Tensor yes =
      torch::full({1}, cadence_.affords(times) ? 1.0F : 0.0F).to(device_of(site_.group));
  site_.group.broadcast_(yes);
  return yes.cpu().item<float>() > 0;
}

bool RunMetrics::is_due(int64_t before, const Counters& counters) {
  if (names_.empty() || !cadence_.may_be_due(before, counters.images_seen)) return false;
  const MetricTimes times = times_of(counters);
  const bool due = affords(times);
  if (!due && !put_off_) {
    info(
        "metrics put off at {} kimg: one more of {} would make them {:.1f} % of the time; "
        "metrics.every=auto keeps them under {:.0f} %",
        kimg_text(counters.images_seen),
        short_duration(times.last),
        100 * share_after_one_more(times),
        100 * MetricCadence::kLargestShare);
  }
  put_off_ = !due;
  return due;
}

void RunMetrics::measure(Reporter& reporter, const Subject& subject, Counters& counters) {
  if (names_.empty()) return;
  site_.phase("metrics");
  const double start = monotonic_seconds();
  evaluation_.draw(subject.drawn);
  const std::optional<std::vector<MetricResult>> results = evaluation_.measure(names_);
  if (results) {
    site_.group.on_rank_0([&] { keep(reporter, *results, subject, counters); },
                          [this] { site_.phase("waiting for rank 0"); });
  } else {
    info("metrics given up, because a stop was asked for");
  }
  const double seconds = monotonic_seconds() - start;
  counters.metric_seconds += seconds;
  counters.last_metric_seconds = seconds;
}

void RunMetrics::keep(Reporter& reporter,
                      const std::vector<MetricResult>& results,
                      const Subject& subject,
                      const Counters& counters) {
  for (const MetricResult& result : results) {
    info("metric{}  at {} kimg", line_of(result), kimg_text(counters.images_seen));
    const Json line = to_json(result);
    reporter.metric(line, subject.snapshot, counters.images_seen);
    if (best_) best_->offer(line, counters.images_seen, subject.save);
  }
}

void RunMetrics::watch_collapse(Reporter& reporter,
                                const SynthesisOptions& drawn,
                                Counters& counters) {
  const CollapseOptions& options = options_.collapse;
  const bool asked = options.stop_on == StopOn::kCollapse;
  if (options.below <= 0 || (names_.empty() && !asked)) return;
  if (!distinctness_.is_measurable()) return;
  MetricTimes times = times_of(counters);
  times.last = distinct_seconds_;
  if (!asked && !affords(times)) return;
  site_.phase("looking for collapse");
  const double start = monotonic_seconds();
  distinct_ = distinctness_.measure(drawn);
  distinct_seconds_ = monotonic_seconds() - start;
  counters.metric_seconds += distinct_seconds_;
  if (!std::isnan(distinct_)) reporter.count("Progress/distinctness", distinct_);
  if (!alarm_.begins_with(distinct_, counters.images_seen)) return;
  warn(
      "generated pictures have collapsed: for {} measurements they have been less distinct from "
      "each other than {} of what the data's pictures are (now {:.3f}); {}",
      options.times,
      shortest(options.below),
      distinct_,
      asked ? "the run saves and ends (--stop-on collapse)"
            : "resume from an earlier state with a lower learning rate; --stop-on collapse ends "
              "such a run");
}

Json RunMetrics::describe_detector() const {
  return {{"file", options_.detector}, {"sha256", detector()->sha256()}};
}

std::string RunMetrics::collapse() const {
  if (options_.collapse.stop_on != StopOn::kCollapse || !alarm_.is_on()) return "";
  return fmt::format("collapse: generated pictures are {:.3f} as distinct as the data's",
                     distinct_);
}

}  // namespace gantrain
