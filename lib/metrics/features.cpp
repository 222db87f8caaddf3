// SPDX-License-Identifier: Apache-2.0
#include "metrics/features.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "core/random.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "metrics/detector.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"

namespace gantrain {

namespace {

// A factor R [F, r] of a covariance R R^T: its eigenvectors times the roots of its eigenvalues.
// Eigenvalues that are rounding errors of zeros count as zeros; their roots would not be small.
Tensor root_of(const Tensor& covariance) {
  const auto [values, vectors] = at::linalg_eigh(0.5 * (covariance + covariance.t()));
  const double largest = std::max(values.max().item<double>(), 0.0);
  const double noise =
      static_cast<double>(values.size(0)) * std::numeric_limits<double>::epsilon() * largest;
  const Tensor kept = values.gt(noise).nonzero().squeeze(1);
  return vectors.index_select(1, kept) * values.index_select(0, kept).sqrt();
}

}  // namespace

FeatureSums::FeatureSums(const Tensor& packed) {
  const int64_t features = packed.size(0) - 1;
  count_ = std::llround(packed[features][features].item<double>());
  total_ = packed.narrow(0, features, 1).narrow(1, 0, features).reshape(-1).clone();
  products_ = packed.narrow(0, 0, features).narrow(1, 0, features).clone();
}

void FeatureSums::add(const Tensor& features) {
  const Tensor x = features.to(at::kCPU, at::kDouble);
  if (!total_.defined()) {
    total_ = at::zeros({x.size(1)}, x.options());
    products_ = at::zeros({x.size(1), x.size(1)}, x.options());
  }
  count_ += x.size(0);
  total_ += x.sum(0);
  products_.addmm_(x.t(), x);
}

void FeatureSums::sum_(const SharedWork& work) {
  if (work.world() == 1) return;
  // A rank without pictures does not know the number of features.
  Tensor sizes = at::zeros({work.world()}, at::kLong);
  sizes[work.rank()] = features();
  sum_over_ranks_(work, sizes);
  const int64_t size = sizes.max().item<int64_t>() + 1;
  Tensor packed = count_ == 0 ? at::zeros({size, size}, at::kDouble) : to_tensor();
  sum_over_ranks_(work, packed);
  *this = FeatureSums(packed);
}

Tensor FeatureSums::mean() const { return total_ / count_; }

Tensor FeatureSums::covariance() const {
  const Tensor m = mean();
  return products_ / count_ - m.outer(m);
}

Tensor FeatureSums::sample_covariance() const {
  TORCH_CHECK(count_ > 1, "sample_covariance: two rows are needed");
  return covariance() * (static_cast<double>(count_) / static_cast<double>(count_ - 1));
}

Tensor FeatureSums::to_tensor() const {
  const int64_t f = features();
  Tensor packed = at::zeros({f + 1, f + 1}, at::kDouble);
  packed.narrow(0, 0, f).narrow(1, 0, f).copy_(products_);
  packed.narrow(0, f, 1).narrow(1, 0, f).copy_(total_);
  packed[f][f] = static_cast<double>(count_);
  return packed;
}

double frechet_distance(const Gaussian& a, const Gaussian& b) {
  const Tensor of_a = root_of(a.covariance), of_b = root_of(b.covariance);
  double root = 0;
  if (of_a.size(1) > 0 && of_b.size(1) > 0)
    root = at::linalg_svdvals(of_a.t().mm(of_b)).sum().item<double>();
  const double distance = (a.mean - b.mean).square().sum().item<double>() +
                          a.covariance.trace().item<double>() +
                          b.covariance.trace().item<double>() - 2 * root;
  return std::max(distance, 0.0);
}

namespace {

Tensor rows(const Tensor& features, const std::vector<int64_t>& chosen) {
  const Tensor index = at::tensor(chosen, at::kLong);
  return features.index_select(0, index).to(at::kCPU, at::kDouble);
}

// k(x, y) = (x.y / F + 1)^3 of all pairs.
Tensor kernel(const Tensor& x, const Tensor& y) {
  return x.mm(y.t()).div_(x.size(1)).add_(1).pow_(3);
}

// The sum over all pairs of two different rows.
double sum_of_others(const Tensor& square) {
  return (square.sum() - square.trace()).item<double>();
}

// `count` different numbers below `size`: the beginning of a random permutation (Fisher-Yates from
// the front), without making the rest of it.
std::vector<int64_t> draw(const Stream& stream, int64_t size, int64_t count) {
  std::vector<int64_t> all = Piece{0, size}.numbers();
  for (int64_t i = 0; i < count; ++i) {
    const auto left = static_cast<uint64_t>(size - i);
    const auto other = static_cast<size_t>(i) + stream.below(left, static_cast<uint64_t>(i));
    std::swap(all[static_cast<size_t>(i)], all[other]);
  }
  all.resize(static_cast<size_t>(count));
  return all;
}

}  // namespace

double kernel_distance(const FeatureSets& sets, const Subset& subset) {
  const Tensor x = rows(sets.fakes, subset.fakes), y = rows(sets.reals, subset.reals);
  const auto m = static_cast<double>(x.size(0));
  const double own = sum_of_others(kernel(x, x)) + sum_of_others(kernel(y, y));
  return own / (m - 1) - 2 * kernel(x, y).sum().item<double>() / m;
}

Subset draw_subset(const FeatureSets& sets, int64_t k, const KidOptions& options) {
  const int64_t m = std::min({options.most, sets.fakes.size(0), sets.reals.size(0)});
  const auto subset = static_cast<uint64_t>(k);
  return {.fakes = draw(Stream(options.seed, "kid/fakes", subset), sets.fakes.size(0), m),
          .reals = draw(Stream(options.seed, "kid/reals", subset), sets.reals.size(0), m)};
}

double kernel_inception_distance(const FeatureSets& sets,
                                 const KidOptions& options,
                                 const SharedWork& work) {
  const int64_t m = std::min({options.most, sets.fakes.size(0), sets.reals.size(0)});
  Tensor distances = at::zeros({options.subsets}, at::kDouble);
  share(work, {.doing = "subsets for kid", .items = options.subsets}, [&](const Piece& piece) {
    distances[piece.first] = kernel_distance(sets, draw_subset(sets, piece.first, options));
  });
  sum_over_ranks_(work, distances);
  return distances.mean().item<double>() / static_cast<double>(m);
}

InceptionScore inception_score(const Tensor& probabilities, int64_t splits) {
  const int64_t count = probabilities.size(0);
  TORCH_CHECK(count >= splits, "inception_score: ", count, " pictures for ", splits, " splits");
  const Tensor all = probabilities.to(at::kCPU, at::kDouble);
  std::vector<double> scores;
  for (int64_t split = 0; split < splits; ++split) {
    const Tensor p = all.slice(0, split * count / splits, (split + 1) * count / splits);
    const Tensor divergence = (at::xlogy(p, p) - at::xlogy(p, p.mean(0, true))).sum(1);
    scores.push_back(divergence.mean().exp().item<double>());
  }
  const Tensor values = at::tensor(scores, at::kDouble);
  return {.mean = values.mean().item<double>(),
          .deviation = values.std(/*unbiased=*/false).item<double>()};
}

namespace {

constexpr int64_t kRowsAtOnce = 512;
constexpr int64_t kColumnsAtOnce = 8192;
constexpr double kRounding = 1e-13;  // of a squared distance, in squared lengths

// Rows of features about a common centre: distances lose fewer digits between short vectors.
struct Centred {
  Tensor features;  // [N, F]
  Tensor centre;    // [F] float64

  int64_t size() const { return features.size(0); }
  Tensor rows(int64_t first, int64_t count) const {
    const Tensor some = features.narrow(0, first, std::min(count, size() - first));
    return some.to(at::kCPU, at::kDouble) - centre;
  }
};

Tensor mean_of(const Tensor& features) { return features.mean(0, false, at::kDouble).cpu(); }

// Calls `look` with the distances of a block of rows to each block of columns, and where the
// columns begin.
using Look = std::function<void(const Tensor& distances, int64_t first_column)>;
void for_columns(const Tensor& rows, const Centred& columns, const Look& look) {
  for (int64_t first = 0; first < columns.size(); first += kColumnsAtOnce)
    look(squared_distances(rows, columns.rows(first, kColumnsAtOnce)), first);
}

// For each row of `points`, 1 where it lies in any ball.
Tensor in_any_ball(const Centred& points,
                   const Centred& centres,
                   const Tensor& radii,
                   const SharedWork& work) {
  const Pieces pieces = {"pictures for pr", points.size(), kRowsAtOnce};
  const Tensor zeros = at::zeros({points.size()}, at::kDouble);
  return share_rows(work, pieces, zeros, [&](const Piece& piece) {
    const Tensor rows = points.rows(piece.first, piece.count);
    Tensor any = at::zeros({piece.count}, at::kBool);
    for_columns(rows, centres, [&](const Tensor& distances, int64_t first) {
      any.logical_or_(distances.le(radii.narrow(0, first, distances.size(1))).any(1));
    });
    return any;
  });
}

Tensor radii_of(const Centred& set, int64_t k, const SharedWork& work) {
  TORCH_CHECK(set.size() > k, "neighbours: more than ", k, " rows are needed");
  const Pieces pieces = {"neighbours of pictures", set.size(), kRowsAtOnce};
  const Tensor zeros = at::zeros({set.size()}, at::kDouble);
  return share_rows(work, pieces, zeros, [&](const Piece& piece) {
    Tensor nearest;  // [rows, up to k + 1], of the columns so far
    for_columns(set.rows(piece.first, piece.count), set, [&](Tensor distances, int64_t) {
      if (nearest.defined()) distances = at::cat({nearest, distances}, 1);
      const int64_t kept = std::min(k + 1, distances.size(1));
      nearest = std::get<0>(distances.topk(kept, 1, /*largest=*/false, /*sorted=*/true));
    });
    return nearest.select(1, k);
  });
}

}  // namespace

Tensor squared_distances(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const Tensor lengths = x.square().sum(1, true) + y.square().sum(1).unsqueeze(0);
  const Tensor distances = at::addmm(lengths, x, y.t(), 1, -2);
  return distances.masked_fill_(distances.lt(lengths * kRounding), 0);
}

Tensor squared_radii(const Tensor& features, int64_t k, const SharedWork& work) {
  return radii_of({features, mean_of(features)}, k, work);
}

PrecisionRecall precision_recall(const FeatureSets& sets, int64_t k, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  const Tensor centre = mean_of(sets.reals);
  const Centred reals = {sets.reals, centre}, fakes = {sets.fakes, centre};
  const Tensor of_reals = radii_of(reals, k, work), of_fakes = radii_of(fakes, k, work);
  return {.precision = in_any_ball(fakes, reals, of_reals, work).mean().item<double>(),
          .recall = in_any_ball(reals, fakes, of_fakes, work).mean().item<double>()};
}

DensityCoverage density_coverage(const FeatureSets& sets, int64_t k, const SharedWork& work) {
  const at::NoGradGuard no_grad;
  const Tensor centre = mean_of(sets.reals);
  const Centred reals = {sets.reals, centre}, fakes = {sets.fakes, centre};
  const Tensor radii = radii_of(reals, k, work);
  const Pieces pieces = {"pictures for dc", reals.size(), kRowsAtOnce};
  const Tensor zeros = at::zeros({reals.size()}, at::kDouble);
  const Tensor fakes_inside = share_rows(work, pieces, zeros, [&](const Piece& piece) {
    const Tensor radius = radii.narrow(0, piece.first, piece.count).unsqueeze(1);
    const Tensor count = at::zeros({piece.count}, at::kDouble);  // in each real's ball
    for_columns(reals.rows(piece.first, piece.count), fakes, [&](const Tensor& d, int64_t) {
      count.add_(d.lt(radius).sum(1));
    });
    return count;
  });
  const auto balls = static_cast<double>(k * fakes.size());
  return {.density = fakes_inside.sum().item<double>() / balls,
          .coverage = fakes_inside.gt(0).to(at::kDouble).mean().item<double>()};
}

Json results_of_rows(const std::string& metric,
                     const FeatureSets& sets,
                     uint64_t seed,
                     const SharedWork& work) {
  if (metric == "kid" || metric == "kd_lite0")
    return {{metric, kernel_inception_distance(sets, {.seed = seed}, work)}};
  if (metric == "pr" || metric == "pr_lite0") {
    const PrecisionRecall pr = precision_recall(sets, kPrNeighbours, work);
    const std::string end = metric.substr(2);
    return {{"precision" + end, pr.precision}, {"recall" + end, pr.recall}};
  }
  const DensityCoverage dc = density_coverage(sets, kDcNeighbours, work);
  return {{"density", dc.density}, {"coverage", dc.coverage}};
}

namespace {

constexpr int64_t kShownTogether = 32;
// Of the files in the folder. 2: EXIF turns PNG and WebP, too.
constexpr const char* kFormat = "2";

// Pictures [N, C, H, W] -> rows, in batches that fit memory.
Tensor look(const Tensor& pictures, const std::function<Tensor(const Tensor&)>& see) {
  std::vector<Tensor> rows;
  for (const Tensor& some : pictures.split(kShownTogether)) rows.push_back(see(some));
  return at::cat(rows);
}

// Rows that some rank has filled in, on all ranks. A rank without pictures has no rows at all, and
// does not know how long they are.
Tensor gathered(Tensor rows, int64_t count, const SharedWork& work) {
  if (work.world() == 1) return rows;
  Tensor lengths = at::zeros({work.world()}, at::kLong);
  if (rows.defined()) lengths[work.rank()] = rows.size(1);
  sum_over_ranks_(work, lengths);
  if (!rows.defined()) rows = at::zeros({count, lengths.max().item<int64_t>()}, at::kFloat);
  sum_over_ranks_(work, rows);
  return rows;
}

void put(Tensor& rows, int64_t count, const Piece& piece, const Tensor& values) {
  if (!rows.defined()) rows = at::zeros({count, values.size(1)}, at::kFloat);
  rows.narrow(0, piece.first, piece.count).copy_(values);
}

// What a kept file holds, in words that are compared letter by letter when it is read.
std::string key_of(Pictures& pictures, const FeatureNetwork& network, const FeaturePlan& plan) {
  return fmt::format("format={} pictures={} count={} detector={} rows={}",
                     kFormat,
                     pictures.identity(),
                     plan.pictures,
                     network.sha256(),
                     plan.rows ? "yes" : "no");
}

void check_shapes(const TensorFile& file, const FeaturePlan& plan, const std::string& name) {
  const auto sums = file.tensors.find("sums");
  bool good = sums != file.tensors.end() && sums->second.dim() == 2 &&
              sums->second.size(0) == sums->second.size(1) && sums->second.size(0) > 1 &&
              sums->second.scalar_type() == at::kDouble;
  if (plan.rows && good) {
    const auto rows = file.tensors.find("rows");
    good = rows != file.tensors.end() && rows->second.dim() == 2 &&
           rows->second.size(0) == plan.pictures &&
           rows->second.size(1) + 1 == sums->second.size(0) &&
           rows->second.scalar_type() == at::kFloat;
  }
  if (!good) fail(Exit::kInput, "{}: does not hold statistics of pictures", name);
}

std::optional<Features> read_kept(const fs::path& file,
                                  const std::string& key,
                                  const FeaturePlan& plan) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  try {
    const TensorFile kept = load_safetensors(file);
    const auto own = kept.metadata.find("key");
    if (own == kept.metadata.end() || own->second != key)
      fail(Exit::kInput, "{}: holds statistics of something else", file.string());
    check_shapes(kept, plan, file.string());
    return Features{FeatureSums(kept.tensors.at("sums")),
                    plan.rows ? kept.tensors.at("rows") : Tensor()};
  } catch (const UserError& e) {
    warn("{}; computed again", e.what());
    return std::nullopt;
  }
}

void keep(const fs::path& file, const std::string& key, const Features& features) {
  NamedTensors tensors = {{"sums", features.sums.to_tensor()}};
  if (features.rows.defined()) tensors.emplace_back("rows", features.rows);
  try {
    make_private_folder(file.parent_path());
    save_safetensors(file, tensors, {{"key", key}});
  } catch (const UserError& e) {
    warn("statistics of the real pictures are not kept for the next time: {}", e.what());
  }
}

// The sums of all ranks, and rows that any rank has, on all ranks.
Features shared(Features features, const FeaturePlan& plan, const SharedWork& work) {
  features.sums.sum_(work);
  if (plan.rows) features.rows = gathered(features.rows, plan.pictures, work);
  return features;
}

}  // namespace

Features compute_features(Pictures& pictures,
                          FeatureNetwork& network,
                          const FeaturePlan& plan,
                          const SharedWork& work) {
  Features features;
  share(work, {plan.what, plan.pictures, kPicturesAtOnce}, [&](const Piece& piece) {
    const Tensor rows = look(pictures.get(piece.numbers()),
                             [&](const Tensor& some) { return network.features(some); });
    features.sums.add(rows);
    if (plan.rows) put(features.rows, plan.pictures, piece, rows);
  });
  return shared(std::move(features), plan, work);
}

Tensor compute_probabilities(Pictures& pictures,
                             Detector& detector,
                             int64_t count,
                             const SharedWork& work) {
  Tensor all;
  share(work, {"generated pictures", count, kPicturesAtOnce}, [&](const Piece& piece) {
    const Tensor rows = look(pictures.get(piece.numbers()),
                             [&](const Tensor& some) { return detector.probabilities(some); });
    put(all, count, piece, rows);
  });
  return gathered(all, count, work);
}

Features cached_features(Pictures& pictures,
                         FeatureNetwork& network,
                         const FeaturePlan& plan,
                         const fs::path& folder,
                         const SharedWork& work) {
  const bool first = work.rank() == 0;
  std::string key;
  fs::path file;
  std::optional<Features> kept;
  if (first && !folder.empty() && shared_with_others(folder).empty() &&
      !pictures.identity().empty()) {
    key = key_of(pictures, network, plan);
    Digest digest;
    digest.update(key.data(), key.size());
    file = folder / fmt::format("reals-{}.safetensors", digest.hex());
    kept = read_kept(file, key, plan);
  }
  if (text_of_rank_0(work, kept ? "kept" : "none") == "kept")
    return shared(kept.value_or(Features{}), plan, work);
  Features features = compute_features(pictures, network, plan, work);
  if (first && !file.empty()) keep(file, key, features);
  return features;
}

}  // namespace gantrain
