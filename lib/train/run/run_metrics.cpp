// SPDX-License-Identifier: Apache-2.0
#include "train/run/run_metrics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "config/config.h"
#include "core/tensor_files.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "data/labels/labels.h"
#include "data/load/loader.h"
#include "metrics/metric_table.h"
#include "page/rules.h"
#include "page/run_record.h"
#include "train/run/training_data.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

struct GivenUp {};  // thrown on all ranks together, in the middle of metrics

// The labels of generated pictures are in the proportion of the data's.
GeneratedPictures::Options options_of_fakes(const EvaluationSubject& subject,
                                            const MetricsOptions& options,
                                            const SynthesisOptions& synthesis) {
  GeneratedPictures::Options fakes{
      .size = options.images, .seed = subject.seed, .synthesis = synthesis};
  if (subject.generator.classes() == 0) return fakes;
  if (subject.dataset->vectors().length() > 0) {
    const std::vector<int64_t> order =
        Stream(subject.seed, "fakes/labels").permutation(subject.dataset->size());
    fakes.label_rows =
        label_rows_of(*subject.dataset).index_select(0, torch::tensor(order, at::kLong));
    fakes.class_names = subject.dataset->vectors().names;
    return fakes;
  }
  for (const ClassRow& row : class_table_of(*subject.dataset)) {
    fakes.class_weights.push_back(row.pictures);
    fakes.class_names.push_back(row.name);
  }
  return fakes;
}

// Reduces uint8 or float pictures [N, C, H, W] to at most 32 pixels a side, as float32 in 0..255.
at::Tensor reduced(const at::Tensor& pictures) {
  constexpr int64_t kSide = 32;
  const int64_t height = pictures.size(2), width = pictures.size(3);
  const int64_t factor = (std::max(height, width) + kSide - 1) / kSide;
  const at::Tensor numbers = pictures.to(at::kFloat);
  if (factor <= 1) return numbers;
  return at::adaptive_avg_pool2d(
      numbers, {std::max<int64_t>(height / factor, 1), std::max<int64_t>(width / factor, 1)});
}

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
  const Json json = parse_json(read_regular_file(path, kMostOfJson), path.string(), Exit::kInput);
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

Evaluation::Evaluation(Group& group,
                       at::Device device,
                       EvaluationSubject subject,
                       const MetricsOptions& options,
                       WantsStop wants_stop)
    : group_(group),
      device_(device),
      subject_(std::move(subject)),
      options_(options),
      wants_stop_(std::move(wants_stop)),
      // Without mirroring, as the published metrics have it.
      reals_(subject_.dataset, {.data = subject_.data, .seed = subject_.seed}) {
  if (!options_.detector.empty())
    detector_ = std::make_unique<Detector>(options_.detector, device_, options_.detector_sha256);
}

// Where a metric needs it: training may have the file for another reason.
FeatureNetwork* Evaluation::lite0(const std::vector<std::string>& names) {
  if (lite0_ || options_.features.empty()) return lite0_.get();
  for (const std::string& name : names) {
    if (find_metric(name).needs_lite0 && !lite0_)
      lite0_ = std::make_unique<Lite0Features>(options_.features, device_);
  }
  return lite0_.get();
}

bool Evaluation::any_rank_wants_to_stop(bool this_one_does) const {
  const bool wish = wants_stop_() || this_one_does;
  const std::vector<double> wishes = numbers_of_ranks(wish ? 1 : 0, group_);
  return contains(wishes, 1);
}

std::optional<std::vector<MetricResult>> Evaluation::measure(const std::vector<std::string>& names,
                                                             const SynthesisOptions& drawn) {
  if (names.empty()) return std::vector<MetricResult>{};
  lite0(names);
  if ((detector_ || lite0_) && !subject_.cache.empty() && !find_identity()) return std::nullopt;
  GeneratedPictures fakes(subject_.generator, options_of_fakes(subject_, options_, drawn));
  MetricInput input = input_of(fakes);
  input.between = [this](const MetricProgress&) {
    if (any_rank_wants_to_stop()) throw GivenUp();
  };
  try {
    return gantrain::measure(names, input);
  } catch (const GivenUp&) {
    return std::nullopt;
  }
}

void Evaluation::check(const std::vector<std::string>& names) {
  lite0(names);
  GeneratedPictures fakes(subject_.generator, options_of_fakes(subject_, options_, {}));
  check_input(names, input_of(fakes));
}

// The first time this reads the data, for longer than a collective may wait, with signs of life.
// Returns false where a rank wants to stop.
bool Evaluation::find_identity() {
  bool stopped = false;  // rank 0, on the way
  const auto hash = [&] {
    try {
      reals_.identity([&] { return stopped = wants_stop_(); });
    } catch (const UserError&) {
      if (!stopped) throw;
    }
  };
  group_.on_rank_0(hash, [this] { wants_stop_(); });
  return !any_rank_wants_to_stop(stopped);
}

MetricInput Evaluation::input_of(GeneratedPictures& fakes) {
  return {.group = group_,
          .device = device_,
          .reals = &reals_,
          .fakes = &fakes,
          .made = &fakes,
          .detector = detector_.get(),
          .lite0 = lite0_.get(),
          .shapes = subject_.data.path == "synth:shapes",
          .attributes = subject_.data.path == kAttributeShapes,
          .images = options_.images,
          .seed = subject_.seed,
          .cache = subject_.cache};
}

double nearest_distance(const at::Tensor& pictures) {
  const at::Tensor flat = pictures.flatten(1).to(at::kDouble);
  at::Tensor distances = at::cdist(flat, flat, 2, /*compute_mode=*/2);
  distances.fill_diagonal_(std::numeric_limits<double>::infinity());
  const double root = std::sqrt(static_cast<double>(flat.size(1)));
  return distances.amin(1).mean().item<double>() / root;
}

Distinctness::Distinctness(Group& group, EvaluationSubject subject, FeatureNetwork* network)
    : group_(group), subject_(std::move(subject)), network_(network) {}

// This rank's share, each picture in its place; zeros in the others' places.
at::Tensor Distinctness::made(const SynthesisOptions& options) {
  constexpr int64_t kMostAtATime = 16;
  const int64_t most = made_together(subject_.data.resolution.pixels(), kMostAtATime);
  const auto together = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most)));
  const Stream stream(subject_.seed, "collapse");
  Generator& generator = subject_.generator;
  const at::Tensor rows = label_rows_of(*subject_.dataset);
  const int64_t batches = kPictures / together;
  at::Tensor all;
  // A rank beyond the number of batches makes one for its shape.
  for (int64_t batch = group_.rank() % batches; batch < batches; batch += group_.world()) {
    const int64_t first = batch * together;
    const at::Tensor z = normal(stream, {first, 1, together}, {generator.z_dim()});
    const at::Tensor pairs = torch::arange(first, first + together).floor_divide(2);
    at::Tensor labels;
    if (generator.classes() > 0)
      labels = rows.defined() ? rows.index_select(0, pairs.remainder(rows.size(0)))
                              : pairs.mul(generator.classes()).floor_divide(kPictures / 2);
    const at::Tensor small = reduced(to_bytes(generator.images(z, labels, options)));
    if (!all.defined())
      all = torch::zeros({kPictures, small.size(1), small.size(2), small.size(3)});
    if (group_.rank() < batches) all.narrow(0, first, together).copy_(small);
  }
  return all;
}

Distinctness::Spread Distinctness::spread_of(const at::Tensor& pictures) const {
  Spread spread{.pixels = nearest_distance(pictures)};
  if (network_ != nullptr) spread.features = nearest_distance(network_->features(pictures));
  return spread;
}

Distinctness::Spread Distinctness::spread_of_reals() const {
  const int64_t count = std::min(kPictures, subject_.dataset->size());
  if (count < 2) return {};
  const std::vector<int64_t> order =
      Stream(subject_.seed, "reals").permutation(subject_.dataset->size());
  std::vector<WantedPicture> wanted;
  for (int64_t i = 0; i < count; ++i) wanted.push_back({order[static_cast<size_t>(i)]});
  return spread_of(reduced(load_planes(*subject_.dataset, wanted)));
}

bool Distinctness::is_measurable() const {
  const int64_t classes = subject_.dataset->classes() == 0 ? 0 : subject_.generator.classes();
  return subject_.dataset->size() >= std::max(kLeastReals, kLeastOfClass * classes);
}

double Distinctness::measure(const SynthesisOptions& options) {
  if (!is_measurable()) return std::nan("");
  const torch::NoGradGuard no_grad;
  if (!of_reals_) {  // outside of a collective, whose timeout a slow disk could exceed
    of_reals_.emplace();
    group_.on_rank_0([this] { of_reals_ = spread_of_reals(); }, [] {});
  }
  at::Tensor fakes = made(options).to(device_of(group_));
  group_.sum_(fakes);
  double ratio = std::nan("");
  if (group_.rank() == 0) {
    const Spread spread = spread_of(fakes.cpu());
    if (of_reals_->pixels > 0) ratio = spread.pixels / of_reals_->pixels;
    if (of_reals_->features > 0) ratio = std::fmin(ratio, spread.features / of_reals_->features);
  }
  return numbers_of_ranks(ratio, group_).front();
}

bool CollapseAlarm::begins_with(double distinctness, int64_t images_seen) {
  limit_ = collapse_limit(options_.below, highest_);
  highest_ = std::fmax(highest_, distinctness);
  const bool low = distinctness < limit_ && images_seen >= options_.after.images;
  in_a_row_ = low ? in_a_row_ + 1 : 0;
  return in_a_row_ == options_.times;
}

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
  rename_aside({folder_ / kModel, folder_ / kRecord});
  warn("{}: the search for the best model begins anew (the old one: superseded-*)", why);
}

int64_t KeepBest::images_in(const fs::path& folder) {
  const std::string text = content_of(folder / kRecord, kMostOfJson).value_or("");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto kimg = json.is_object() ? json.find("kimg") : json.end();
  return kimg != json.end() && kimg->is_number() ? std::llround(kimg->get<double>() * 1e3) : -1;
}

// A line's number where it is one of the metric, and finite.
std::optional<double> KeepBest::value_of(const Json& line) const {
  if (line.value("metric", "") != metric_) return std::nullopt;
  const Json value = line.at("results").value(find_metric(metric_).key, Json());
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

bool KeepBest::is_better(double value) const {
  return !best_ || find_metric(metric_).is_better(value, best_->value);
}

bool KeepBest::lacks(const Json& line) const {
  const std::optional<double> value = value_of(line);
  return value && is_better(*value);
}

bool KeepBest::offer(const Json& line, int64_t images_seen, const SaveModel& save) {
  const std::optional<double> value = value_of(line);
  if (!value) return false;
  const Json recipe = line.value("recipe", Json());
  if (best_ && !same_recipe(best_->recipe, recipe))
    forget(fmt::format("{} was measured by another recipe", metric_));
  if (!is_better(*value)) return false;
  best_ = BestModel{metric_, *value, kimg_of(images_seen), recipe};
  const Json record = {{"metric", metric_},
                       {"value", *value},
                       {"kimg", best_->kimg},
                       {"recipe", recipe},
                       {"results", line.at("results")},
                       {"model", kModel}};
  save(folder_ / kModel,
       [path = folder_ / kRecord, text = record.dump(2) + "\n"] { write_file(path, text); });
  info("best    {} {:.4g} at {} kimg: {}", metric_, *value, shortest(best_->kimg), kModel);
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
      distinctness_(site_.group, subject, evaluation_.lite0(names_)),
      alarm_(metrics.collapse) {
  if (!names_.empty()) evaluation_.check(names_);
}

void RunMetrics::open(const std::filesystem::path& folder, const Counters& counters, bool says) {
  if (!names_.empty() && says) {
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
  if (says && options_.collapse.stop_on == StopOn::kCollapse && !distinctness_.is_measurable())
    warn("--stop-on collapse: the data has too few pictures to tell; the run will not end by it");
  if (!keep_best_.empty()) best_.emplace(folder, keep_best_, counters.images_seen);
}

// Whether rank 0's clock allows one more measurement; the same on all ranks.
bool RunMetrics::affords(const MetricTimes& times) {
  if (!cadence_.adapts()) return true;
  return numbers_of_ranks(cadence_.affords(times) ? 1 : 0, site_.group).front() > 0;
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

bool RunMetrics::owes(const fs::path& folder, const Counters& counters) {
  // Longer ones, or one that has never ended, might keep short sessions from training at all.
  constexpr double kLongest = 60;  // seconds
  const int64_t every = std::max<int64_t>(cadence_.images(), 1), now = counters.images_seen;
  const double last = counters.last_metric_seconds;
  if (now < every || last <= 0 || last > kLongest) return now == 0 && options_.at_start;
  bool lacks_best = false, measured = names_.empty();
  for (const std::string& name : names_) {
    const Json row = site_.group.rank() == 0 ? newest_metric(folder, name) : Json();
    const int64_t at = row.is_null() ? -1 : std::llround(row.at("kimg").get<double>() * 1e3);
    measured = measured || at >= now / every * every;
    lacks_best = lacks_best || (at == now && best_ && best_->lacks(row));
  }
  const bool lacks = site_.group.rank() == 0 && (lacks_best || !measured);
  return affords(times_of(counters)) && numbers_of_ranks(lacks ? 1 : 0, site_.group).front() > 0;
}

bool RunMetrics::measure(Reporter& reporter, const Subject& subject, Counters& counters) {
  if (names_.empty()) return true;
  site_.phase("metrics");
  const double start = monotonic_seconds();
  const std::optional<std::vector<MetricResult>> results =
      evaluation_.measure(names_, subject.drawn);
  if (results) {
    site_.group.on_rank_0([&] { keep(reporter, *results, subject, counters); },
                          [this] { site_.phase("waiting for rank 0"); });
  } else {
    info("metrics given up, because a stop was asked for");
  }
  const double seconds = monotonic_seconds() - start;
  counters.metric_seconds += seconds;
  counters.last_metric_seconds = seconds;
  return results.has_value();
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
      shortest(distinct_ < options.below ? options.below
                                         : std::round(1000 * alarm_.limit()) / 1000),
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
