// SPDX-License-Identifier: Apache-2.0
#include "metrics/measure.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "distributed/group.h"
#include "metrics/detector.h"
#include "metrics/features.h"
#include "metrics/picture_metrics.h"
#include "util/error.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr int64_t kMostRows = 200'000;  // features of reals that are kept one by one

// Whether the metric is a Frechet distance.
bool is_frechet(const std::string& name) {
  return name == "fid" || name == "fd" || name == "fd_lite0";
}

// Pictures of each kind that a metric cannot do without.
int64_t least_pictures(const std::string& name) {
  if (name == "swd" || name == "modes" || name == "attributes" || moved_by(name)) return 1;
  if (name == "pr" || name == "pr_lite0") return kPrNeighbours + 1;
  if (name == "dc") return kDcNeighbours + 1;
  return name == "is" ? kInceptionSplits : 2;
}

// How many pictures of each kind there are.
struct Counts {
  int64_t fakes = 0;
  int64_t reals = 0;  // for metrics of features
};

Counts counts_of(const MetricInput& input) {
  Counts counts = {.fakes = std::min(input.images, input.fakes->size())};
  if (input.reals == nullptr) return counts;
  const int64_t all = input.reals->size();
  const int64_t asked = input.real_images == 0 ? counts.fakes : input.real_images;
  counts.reals = asked < 0 ? all : std::min(asked, all);
  return counts;
}

bool are_enough(const std::string& name, const Counts& counts) {
  const int64_t least = least_pictures(name);
  return counts.fakes >= least && (!find_metric(name).needs_reals || counts.reals >= least);
}

// Throws UserError(kInput) unless there are enough pictures.
void check_enough(const std::string& name, const Counts& counts) {
  if (are_enough(name, counts)) return;
  const bool compares = find_metric(name).needs_reals;
  fail(Exit::kInput,
       "{} needs {} or more{}; given: {}{}",
       name,
       counted(least_pictures(name), "picture"),
       compares ? " of each kind" : "",
       counted(counts.fakes, "fake"),
       compares ? " and " + counted(counts.reals, "real") : "");
}

// The network whose features the metric compares.
FeatureNetwork& network_of(const std::string& name, const MetricInput& input) {
  return find_metric(name).needs_lite0 ? *input.lite0 : *input.detector;
}

// Shows the network a picture. Throws UserError(kInput) that names its file where it cannot do
// what the metric needs.
void check_network(const std::string& name, const MetricInput& input, const at::Tensor& picture) {
  if (name == "is") {
    input.detector->probabilities(picture);
  } else if (name == "ppl") {
    input.detector->lpips(picture);
  } else {
    network_of(name, input).features(picture);
  }
}

// The Gaussian with these moments. FID's published evaluations divide covariances by N; distances
// in Lite0's features have no such past, and divide by N - 1.
Gaussian gaussian_of(const std::string& name, const FeatureSums& sums) {
  const bool by_one_less = find_metric(name).needs_lite0;
  return {sums.mean(), by_one_less ? sums.sample_covariance() : sums.covariance()};
}

double frechet_of(const std::string& name, const FeatureSums& fakes, const FeatureSums& reals) {
  return frechet_distance(gaussian_of(name, fakes), gaussian_of(name, reals));
}

Json results_of_is(const at::Tensor& probabilities) {
  const InceptionScore score = inception_score(probabilities, kInceptionSplits);
  return {{"is", score.mean}, {"is_std", score.deviation}};
}

// All metrics of one set of fakes against one set of reals. What several of them need is computed
// once.
class Comparison {
 public:
  Comparison(const MetricInput& input,
             Pictures* reals,
             Pictures& fakes,
             const Counts& counts,
             const std::vector<std::string>& names)
      : input_(input),
        work_{&input.group, input.device, input.between},
        reals_(reals),
        fakes_(fakes),
        counts_(counts) {
    for (const std::string& name : names) {
      if (find_metric(name).needs_rows) seen_[&network_of(name, input)].needs_rows = true;
    }
    equal_ = reals == nullptr ? counts.fakes : std::min(counts.fakes, counts.reals);
  }

  // Returns the numbers of a metric. Throws UserError(kInput) where there are too few pictures.
  Json compute(const std::string& name) {
    if (name == "swd") return compute_swd();
    if (name == "msssim") return {{"msssim", ms_ssim(fakes_, enough(name), work_)}};
    if (name == "diversity") return compute_diversity();
    if (name == "modes") return compute_modes();
    if (name == "attributes") return compute_attributes();
    if (is_frechet(name)) return {{name, compute_frechet(name)}};
    if (find_metric(name).needs_rows) return compute_of_rows(name);
    if (name == "is") return compute_is();
    if (name == "ppl") return compute_ppl();
    if (const auto by = moved_by(name)) return compute_equivariance(name, *by);
    throw std::logic_error("no metric is called " + name);
  }

  bool has_enough(const std::string& name) const { return are_enough(name, counts_); }

  // How many pictures the metric looked at.
  Json counts(const std::string& name) const {
    const MetricRow& row = find_metric(name);
    Json json = {{"fakes", counts_.fakes}};
    if (row.needs_reals && row.needs_features()) json["reals"] = counts_.reals;
    if (row.needs_reals && !row.needs_features()) {
      // SWD repeats reals that are fewer.
      json = {{"fakes", name == "swd" ? counts_.fakes : equal_}, {"reals", equal_}};
    }
    return json;
  }

 private:
  // Returns the number of fakes. Throws UserError(kInput) unless there are enough pictures.
  int64_t enough(const std::string& name) const {
    check_enough(name, counts_);
    return counts_.fakes;
  }

  Json compute_swd() {
    enough("swd");
    const std::vector<double> levels = swd({*reals_, fakes_}, counts_.fakes, input_.seed, work_);
    const at::Tensor one = fakes_.get({0});
    int64_t side = std::min(one.size(2), one.size(3));
    Json results = {{"swd", levels.back()}};
    for (size_t i = 0; i + 1 < levels.size(); ++i, side /= 2)
      results["swd_" + std::to_string(side)] = levels[i];
    return results;
  }

  Json compute_diversity() {
    enough("diversity");
    const double of_fakes = mean_distance(fakes_, equal_, work_);
    const double of_reals = mean_distance(*reals_, equal_, work_);
    return {{"diversity", of_fakes / std::max(of_reals, 1e-12)}};
  }

  Json compute_modes() {
    const Modes modes = count_modes(*reals_, fakes_, enough("modes"), work_);
    return {{"modes", modes.shown}, {"of", 10}, {"recognised", modes.recognised}};
  }

  Json compute_attributes() {
    const AttributeAccuracy shown = attribute_accuracy(fakes_, enough("attributes"), work_);
    return {{"attributes", shown.all},
            {"color", shown.color},
            {"size", shown.size},
            {"angle", shown.angle}};
  }

  double compute_frechet(const std::string& name) {
    enough(name);
    FeatureNetwork& network = network_of(name, input_);
    const FeatureSums& reals = features_of_reals(network, /*rows=*/false).sums;
    const FeatureSums& fakes = features_of_fakes(network).sums;
    return on_rank_0(work_, [&] { return frechet_of(name, fakes, reals); });
  }

  Json compute_of_rows(const std::string& name) {
    enough(name);
    FeatureNetwork& network = network_of(name, input_);
    const FeatureSets rows = {features_of_reals(network, /*rows=*/true).rows,
                              features_of_fakes(network).rows};
    return results_of_rows(name, rows, input_.seed, work_);
  }

  Json compute_is() {
    const int64_t count = enough("is");
    return results_of_is(compute_probabilities(fakes_, *input_.detector, count, work_));
  }

  Json compute_ppl() {
    const int64_t count = enough("ppl");
    const PathLengthOptions options = {.samples = count, .seed = input_.seed};
    return {{"ppl", perceptual_path_length(*input_.made, *input_.detector, options, work_)}};
  }

  Json compute_equivariance(const std::string& name, MovedBy by) {
    const int64_t count = enough(name);
    return {{name, equivariance(*input_.made, {by, count, input_.seed}, work_)}};
  }

  // What a network sees, as far as it was computed.
  struct Seen {
    bool needs_rows = false;  // some metric needs features one by one
    std::optional<Features> real_sums, real_rows, fakes;
  };

  // Features one by one are kept of so many reals only; more of them share one pass where they can.
  const Features& features_of_reals(FeatureNetwork& network, bool rows) {
    Seen& seen = seen_[&network];
    const int64_t count = rows ? std::min(counts_.reals, kMostRows) : counts_.reals;
    const bool one_pass = seen.needs_rows && counts_.reals <= kMostRows;
    std::optional<Features>& features = rows || one_pass ? seen.real_rows : seen.real_sums;
    if (!features) {
      const FeaturePlan plan = {"real pictures", count, rows || one_pass};
      features = cached_features(*reals_, network, plan, input_.cache, work_);
    }
    return *features;
  }

  const Features& features_of_fakes(FeatureNetwork& network) {
    Seen& seen = seen_[&network];
    if (!seen.fakes) {
      const FeaturePlan plan = {"generated pictures", counts_.fakes, seen.needs_rows};
      seen.fakes = compute_features(fakes_, network, plan, work_);
    }
    return *seen.fakes;
  }

  const MetricInput& input_;
  SharedWork work_;
  Pictures* reals_;
  Pictures& fakes_;
  Counts counts_;
  int64_t equal_ = 0;  // pictures of each kind for metrics that take as many of both
  std::map<FeatureNetwork*, Seen> seen_;
};

void check_shapes(Pictures& reals, Pictures& fakes) {
  const at::Tensor real = reals.get({0}), fake = fakes.get({0});
  if (real.sizes() == fake.sizes()) return;
  fail(Exit::kInput,
       "real pictures of {}x{} pixels and {} channels cannot be compared with fakes of {}x{} and "
       "{}; give the fakes' size as --resolution",
       real.size(3),
       real.size(2),
       real.size(1),
       fake.size(3),
       fake.size(2),
       fake.size(1));
}

// Of the data, where there is some.
ClassLabels class_labels(const MetricInput& input) {
  Pictures& pictures = input.reals != nullptr ? *input.reals : *input.fakes;
  const int64_t count = input.reals != nullptr ? pictures.size() : counts_of(input).fakes;
  return class_labels(pictures, count);
}

// Throws UserError(kInput) where labels are values alone.
void check_has_classes(const MetricInput& input) {
  const ClassLabels labels = class_labels(input);
  if (!labels.classes.empty() || labels.values.empty()) return;
  fail(Exit::kInput,
       "--per-class: the labels have no class, which is 0 or 1 in every picture, but values: {}",
       labels.values);
}

// Of what the results depend on.
Json recipe_of(const MetricInput& input, const MetricRow& row, const Json& counts) {
  Json recipe = counts;
  const at::Tensor one = input.fakes->get({0});
  recipe["resolution"] = Value<Size>::to_json({one.size(3), one.size(2)});
  recipe["seed"] = input.seed;
  recipe.update(input.fakes->recipe());
  if (moved_by(row.name) && recipe.contains("noise"))
    recipe["noise"] = Value<NoiseMode>::to_json(NoiseMode::kNone);  // noise does not move
  if (row.needs_reals) recipe.update(input.reals->recipe());
  if (row.needs_features()) {
    const FeatureNetwork& network = network_of(row.name, input);
    // The weights alone decide what Lite0 sees, whatever their file is called.
    recipe["detector"] = row.needs_lite0 ? "EfficientNet-Lite0" : network.name();
    recipe["detector_sha256"] = network.sha256();
    if (one.size(1) > 4) recipe["detector_channels"] = "0,1,2";
  }
  return recipe;
}

class Measurement {
 public:
  Measurement(const std::vector<std::string>& names, const MetricInput& input)
      : names_(names), input_(input), fakes_(*input.fakes), counts_(counts_of(input)) {
    if (input.reals == nullptr) return;
    reals_.emplace(*input.reals);
    check_shapes(*input.reals, *input.fakes);
  }

  std::vector<MetricResult> run() {
    Comparison whole(input_, reals(), fakes_, counts_, names_);
    std::vector<MetricResult> all;
    for (const std::string& name : names_) {
      const double start = monotonic_seconds();
      MetricResult result;
      result.metric = name;
      result.results = whole.compute(name);
      result.recipe = recipe_of(input_, find_metric(name), whole.counts(name));
      result.seconds = monotonic_seconds() - start;
      all.push_back(std::move(result));
    }
    if (input_.per_class) add_classes(all);
    return all;
  }

 private:
  Pictures* reals() { return reals_ ? &*reals_ : nullptr; }

  void add_classes(std::vector<MetricResult>& all) {
    std::vector<std::string> of_whole;
    for (const std::string& name : names_)
      if (find_metric(name).needs_generator) of_whole.push_back(name);
    if (!of_whole.empty())
      warn("--per-class: {} of all classes together alone", join(of_whole, ", "));
    const ClassLabels labels = class_labels(input_);
    static std::once_flag said;
    if (!labels.values.empty())
      std::call_once(said, [&] { warn("--per-class: no classes but values: {}", labels.values); });
    const std::vector<std::string> names = fakes_.class_names();
    for (const int64_t label : labels.classes) {
      if (static_cast<size_t>(label) < names.size()) add_class(all, label, names[label]);
    }
  }

  // Adds the numbers of one class, where there are enough pictures of it.
  void add_class(std::vector<MetricResult>& all, int64_t label, const std::string& name) {
    const std::string own = fmt::format("class {}", label);
    SomePictures fakes(fakes_, with_label(fakes_, counts_.fakes, label), own);
    std::optional<SomePictures> reals;
    if (reals_) reals.emplace(*reals_, with_label(*reals_, counts_.reals, label), own);
    if (fakes.size() == 0 || (reals && reals->size() == 0)) return;
    const Counts counts = {fakes.size(), reals ? reals->size() : 0};
    Comparison of_class(input_, reals ? &*reals : nullptr, fakes, counts, names_);
    for (MetricResult& result : all) {
      const bool of_whole = result.metric == "modes" || find_metric(result.metric).needs_generator;
      if (of_whole || !of_class.has_enough(result.metric)) continue;
      const double start = monotonic_seconds();
      const Json numbers = of_class.compute(result.metric);
      for (const auto& [key, value] : numbers.items()) result.results[key + "/" + name] = value;
      result.seconds += monotonic_seconds() - start;
    }
  }

  std::vector<std::string> names_;
  const MetricInput& input_;
  KeptPictures fakes_;
  std::optional<KeptPictures> reals_;
  Counts counts_;
};

at::Tensor load_rows(const std::string& file, int64_t least) {
  at::Tensor rows = load_npy(file, std::nullopt);
  if (rows.dim() != 2) {
    fail(Exit::kInput,
         "{}: has shape [{}]; features are [N, F], one row a picture",
         file,
         fmt::join(rows.sizes(), ", "));
  }
  if (rows.size(0) < least)
    fail(Exit::kInput, "{}: {}; {} are needed at least", file, counted(rows.size(0), "row"), least);
  if (!rows.isfinite().all().item<bool>())
    fail(Exit::kInput, "{}: holds values that are not finite", file);
  return rows;
}

// Class probabilities: none below 0, sums of 1.
at::Tensor load_probabilities(const std::string& file) {
  const at::Tensor p = load_rows(file, kInceptionSplits);
  const double lowest = p.min().item<double>();
  const double worst = (p.sum(1, false, at::kDouble) - 1).abs().max().item<double>();
  if (lowest < 0 || worst > 1e-3) {
    fail(Exit::kInput,
         "{}: no class probabilities: each row must add up to 1 without negative numbers",
         file);
  }
  return p;
}

FeatureSums sums_of(const at::Tensor& rows) {
  FeatureSums sums;
  sums.add(rows);
  return sums;
}

Json results_of(const std::string& name, const FeatureFiles& files, const FeatureSets& sets) {
  if (is_frechet(name)) return {{name, frechet_of(name, sums_of(sets.fakes), sums_of(sets.reals))}};
  if (find_metric(name).needs_rows)
    return results_of_rows(name, sets, static_cast<uint64_t>(files.seed), SharedWork());
  return results_of_is(load_probabilities(files.probabilities));
}

}  // namespace

void check_input(const std::vector<std::string>& names, const MetricInput& input) {
  check_metrics(names,
                {.reals = input.reals != nullptr,
                 .detector = input.detector != nullptr,
                 .lite0 = input.lite0 != nullptr,
                 .generator = input.made != nullptr,
                 .shapes = input.shapes,
                 .attributes = input.attributes});
  for (const std::string& name : names) {
    check_enough(name, counts_of(input));
    if (const auto by = moved_by(name)) check_movable(input.made->generator(), *by, name);
  }
  if (input.per_class) check_has_classes(input);
  at::Tensor picture;
  for (const std::string& name : names) {
    if (!find_metric(name).needs_features()) continue;
    // One of the data, where there is some: a generator may not be ready yet.
    if (!picture.defined()) picture = (input.reals ? input.reals : input.fakes)->get({0});
    check_network(name, input, picture);
  }
  static std::once_flag said;
  if (picture.defined() && picture.size(1) > 4) {
    std::call_once(said, [&] {
      info("metrics that look through a network see the first three of {} channels as RGB",
           picture.size(1));
    });
  }
}

std::vector<MetricResult> measure(const std::vector<std::string>& names, const MetricInput& input) {
  if (names.empty()) return {};
  check_input(names, input);
  return Measurement(names, input).run();
}

Json to_json(const MetricResult& result) {
  return {{"metric", result.metric},
          {"results", result.results},
          {"recipe", result.recipe},
          {"total_time", result.seconds}};
}

std::vector<MetricResult> measure_features(const FeatureFiles& files) {
  std::vector<std::string> names = files.names;
  if (names.empty()) names = {"fid", "kid", "pr", "dc"};
  if (files.names.empty() && !files.probabilities.empty()) names.push_back("is");
  int64_t least = 2;
  for (const std::string& name : names) {
    if (find_metric(name).needs_rows) least = std::max(least, least_pictures(name));
  }
  const FeatureSets sets = {load_rows(files.reals, least), load_rows(files.fakes, least)};
  if (sets.reals.size(1) != sets.fakes.size(1)) {
    fail(Exit::kInput,
         "{} has {} a row, {} has {}: they are not of one detector",
         files.reals,
         counted(sets.reals.size(1), "feature"),
         files.fakes,
         sets.fakes.size(1));
  }
  std::vector<MetricResult> results;
  for (const std::string& name : names) {
    MetricResult& result = results.emplace_back();
    const double start = monotonic_seconds();
    result.metric = name;
    result.results = results_of(name, files, sets);
    result.recipe = {{"fakes", sets.fakes.size(0)},
                     {"reals", sets.reals.size(0)},
                     {"features", sets.fakes.size(1)},
                     {"seed", files.seed}};
    result.seconds = monotonic_seconds() - start;
  }
  return results;
}

}  // namespace gantrain
