// SPDX-License-Identifier: Apache-2.0
#include "metrics/feature_files.h"

#include <algorithm>
#include <filesystem>

#include "core/npy.h"
#include "core/torch.h"
#include "metrics/features.h"
#include "util/error.h"
#include "util/time.h"

namespace gantrain {

namespace {

at::Tensor load_rows(const std::string& file, int64_t least) {
  at::Tensor rows = load_npy(file, std::nullopt);
  if (rows.dim() != 2) {
    fail(Exit::kInput,
         "{}: has shape [{}]; features are [N, F], one row a picture",
         file,
         fmt::join(rows.sizes(), ", "));
  }
  if (rows.size(0) < least)
    fail(Exit::kInput, "{}: {} rows; {} are needed at least", file, rows.size(0), least);
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

Gaussian gaussian_of(const at::Tensor& rows) {
  FeatureSums sums;
  sums.add(rows);
  return {sums.mean(), sums.covariance()};
}

Json results_of(const std::string& name, const FeatureFiles& files, const FeatureSets& sets) {
  const SharedWork alone;
  if (name == "fid" || name == "fd")
    return {{name, frechet_distance(gaussian_of(sets.fakes), gaussian_of(sets.reals))}};
  if (name == "kid" || name == "pr" || name == "dc")
    return results_of_rows(name, sets, static_cast<uint64_t>(files.seed), alone);
  const InceptionScore score =
      inception_score(load_probabilities(files.probabilities), kInceptionSplits);
  return {{"is", score.mean}, {"is_std", score.deviation}};
}

// Rows that the metrics cannot do without.
int64_t least_rows(const std::vector<std::string>& names) {
  int64_t least = 2;
  for (const std::string& name : names)
    least = std::max<int64_t>(least, name == "pr" ? 4 : name == "dc" ? 6 : 2);
  return least;
}

}  // namespace

std::vector<MetricResult> measure_features(const FeatureFiles& files) {
  std::vector<std::string> names = files.names;
  if (names.empty()) names = {"fid", "kid", "pr", "dc"};
  if (files.names.empty() && !files.probabilities.empty()) names.push_back("is");
  const int64_t least = least_rows(names);
  const FeatureSets sets = {load_rows(files.reals, least), load_rows(files.fakes, least)};
  if (sets.reals.size(1) != sets.fakes.size(1)) {
    fail(Exit::kInput,
         "{} has {} features a row, {} has {}: they are not of one detector",
         files.reals,
         sets.reals.size(1),
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
