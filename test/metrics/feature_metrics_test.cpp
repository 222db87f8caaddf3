// SPDX-License-Identifier: Apache-2.0
// Metrics of features against numbers of the reference implementation, and against their laws.
#include <cmath>
#include <string>

#include "core/torch.h"
#include "metrics/features.h"
#include "metrics/picture_metrics.h"
#include "support/catch.h"
#include "support/covered_fixture.h"

namespace gantrain {
namespace {

const SharedWork kAlone;

at::Tensor random(int64_t rows, int64_t features, int64_t seed, double shift = 0) {
  torch::manual_seed(seed);
  return torch::randn({rows, features}, at::kDouble) + shift;
}

Gaussian gaussian(const at::Tensor& rows) {
  FeatureSums sums;
  sums.add(rows);
  return {sums.mean(), sums.covariance()};
}

double frechet(const at::Tensor& a, const at::Tensor& b) {
  return frechet_distance(gaussian(a), gaussian(b));
}

std::vector<int64_t> row(const at::Tensor& indices, int64_t k) {
  const at::Tensor one = indices[k].contiguous();
  return {one.data_ptr<int64_t>(), one.data_ptr<int64_t>() + one.numel()};
}

TEST_CASE("FeatureMetricsMatchTheReference") {
  CoveredFixture f("metrics_features");
  for (const std::string set : {"a/", "b/"}) {
    CAPTURE(set);
    const auto value = [&](const std::string& name) { return f[set + name].item<double>(); };
    const FeatureSets sets = {f[set + "real"], f[set + "gen"]};
    const int64_t neighbours = set == "a/" ? 3 : 5, splits = set == "a/" ? 10 : 3;

    const Gaussian real = gaussian(sets.reals), fake = gaussian(sets.fakes);
    CHECK(error_in_tolerances(real.mean, f[set + "mu_real"], 1e-9, 1e-12) < 1);
    CHECK(error_in_tolerances(fake.mean, f[set + "mu_gen"], 1e-9, 1e-12) < 1);
    CHECK(error_in_tolerances(real.covariance, f[set + "cov_real"], 1e-9, 1e-12) < 1);
    CHECK(error_in_tolerances(fake.covariance, f[set + "cov_gen"], 1e-9, 1e-12) < 1);
    CHECK(frechet_distance(fake, real) == Approx(value("fid")).epsilon(1e-9));

    // With covariances divided by N - 1, as other programs have it.
    const auto unbiased = [](const Gaussian& g, const at::Tensor& rows) {
      const auto n = static_cast<double>(rows.size(0));
      return Gaussian{g.mean, g.covariance * n / (n - 1)};
    };
    CHECK(frechet_distance(unbiased(fake, sets.fakes), unbiased(real, sets.reals)) ==
          Approx(value("fid_unbiased_cov")).epsilon(1e-9));

    const at::Tensor of_fakes = f[set + "kid_idx_gen"], of_reals = f[set + "kid_idx_real"];
    double kid = 0;
    for (int64_t k = 0; k < of_fakes.size(0); ++k)
      kid += kernel_distance(sets, {.fakes = row(of_fakes, k), .reals = row(of_reals, k)});
    kid /= static_cast<double>(of_fakes.numel());
    CHECK(kid == Approx(value("kid_f64")).epsilon(1e-9));
    CHECK(kid == Approx(value("kid")).epsilon(1e-5));

    const at::Tensor radii_real = squared_radii(sets.reals, neighbours, kAlone).sqrt();
    const at::Tensor radii_fake = squared_radii(sets.fakes, neighbours, kAlone).sqrt();
    CHECK(error_in_tolerances(radii_real, f[set + "radius_real"], 1e-9, 0) < 1);
    CHECK(error_in_tolerances(radii_fake, f[set + "radius_gen"], 1e-9, 0) < 1);
    const PrecisionRecall pr = precision_recall(sets, neighbours, kAlone);
    // The reference computed these shares in float32: they must be equal once rounded so.
    CHECK(static_cast<float>(pr.precision) == static_cast<float>(value("precision")));
    CHECK(static_cast<float>(pr.recall) == static_cast<float>(value("recall")));

    const InceptionScore score = inception_score(f[set + "probs"], splits);
    CHECK(score.mean == Approx(value("is_mean")).epsilon(1e-6));
    CHECK(score.deviation == Approx(value("is_std")).epsilon(1e-5));
  }
  CHECK(f.unused().empty());
}

TEST_CASE("FrechetDistanceOfOneFeatureIsItsClosedForm") {
  const at::Tensor a = random(300, 1, 1), b = 3 * random(200, 1, 2, 0.5);
  const auto mean = [](const at::Tensor& x) { return x.mean().item<double>(); };
  const auto deviation = [](const at::Tensor& x) { return x.std(false).item<double>(); };
  const double wanted = std::pow(mean(a) - mean(b), 2) + std::pow(deviation(a) - deviation(b), 2);
  CHECK(frechet(a, b) == Approx(wanted).epsilon(1e-12));
}

TEST_CASE("FrechetDistanceOfASetToItselfIsZeroAndNeverBelow") {
  const int64_t rows = GENERATE(2, 5, 300);
  const at::Tensor a = random(rows, 40, rows, 7);
  const double distance = frechet(a, a);
  CHECK(distance >= 0);
  CHECK(distance < 1e-9 * gaussian(a).covariance.trace().item<double>());
  CHECK(frechet(torch::ones({6, 3}), torch::ones({4, 3})) == 0);
}

TEST_CASE("FrechetDistanceIsRightWithFewerPicturesThanFeatures") {
  const at::Tensor a = random(20, 64, 3), b = 1.5 * random(30, 64, 4, 0.2);
  // tr (S_a S_b)^(1/2) is the nuclear norm of the product of the centred rows.
  const auto centred = [](const at::Tensor& x) {
    return (x - x.mean(0)) / std::sqrt(static_cast<double>(x.size(0)));
  };
  const double root = at::linalg_svdvals(centred(a).mm(centred(b).t())).sum().item<double>();
  const double wanted = (a.mean(0) - b.mean(0)).square().sum().item<double>() +
                        centred(a).square().sum().item<double>() +
                        centred(b).square().sum().item<double>() - 2 * root;
  CHECK(frechet(a, b) == Approx(wanted).epsilon(1e-7));
  CHECK(frechet(b, a) == Approx(wanted).epsilon(1e-7));
}

TEST_CASE("FeatureSumsDoNotDependOnTheirPieces") {
  const at::Tensor rows = random(100, 8, 5, 2);
  FeatureSums pieces;
  for (const at::Tensor& some : rows.split(7)) pieces.add(some);
  const Gaussian whole = gaussian(rows);
  CHECK(pieces.count() == 100);
  CHECK(at::allclose(pieces.mean(), whole.mean, 1e-13, 1e-13));
  CHECK(at::allclose(pieces.covariance(), whole.covariance, 1e-12, 1e-12));
  const FeatureSums again(pieces.to_tensor());
  CHECK(again.count() == 100);
  CHECK(again.covariance().equal(pieces.covariance()));
}

TEST_CASE("KernelDistanceOfTwoDrawsOfOneDistributionIsAboutZero") {
  const FeatureSets alike = {random(2000, 16, 6), random(1500, 16, 7)};
  const FeatureSets apart = {random(2000, 16, 6), random(1500, 16, 7, 0.5)};
  const double same = kernel_inception_distance(alike, {.subsets = 10, .most = 500}, kAlone);
  const double other = kernel_inception_distance(apart, {.subsets = 10, .most = 500}, kAlone);
  CHECK(std::abs(same) < 0.02);
  CHECK(other > 0.3);
}

TEST_CASE("SubsetsHoldEachRowOnceAndDependOnTheSeed") {
  const FeatureSets sets = {random(50, 2, 8), random(40, 2, 9)};
  const Subset subset = draw_subset(sets, 3, {.most = 30, .seed = 1});
  REQUIRE(subset.fakes.size() == 30);
  CHECK(std::set<int64_t>(subset.fakes.begin(), subset.fakes.end()).size() == 30);
  CHECK(std::set<int64_t>(subset.reals.begin(), subset.reals.end()).size() == 30);
  CHECK(*std::max_element(subset.reals.begin(), subset.reals.end()) < 50);
  CHECK(draw_subset(sets, 3, {.most = 30, .seed = 1}).fakes == subset.fakes);
  CHECK(draw_subset(sets, 3, {.most = 30, .seed = 2}).fakes != subset.fakes);
  CHECK(draw_subset(sets, 4, {.most = 30, .seed = 1}).fakes != subset.fakes);
  const Subset all = draw_subset(sets, 0, {.most = 1000});
  CHECK(std::set<int64_t>(all.fakes.begin(), all.fakes.end()).size() == 40);
}

// Straight from the definitions, without blocks.
TEST_CASE("NeighboursOfManyRowsAreThoseOfTheWholeTable") {
  const at::Tensor reals = random(1100, 3, 10), fakes = random(8300, 3, 11, 0.4);
  const FeatureSets sets = {reals, fakes};
  const auto radii = [](const at::Tensor& x, int64_t k) {
    return std::get<0>(at::cdist(x, x, 2, 2).kthvalue(k + 1, 1));
  };
  const at::Tensor between = at::cdist(reals, fakes, 2, 2);  // [reals, fakes]
  const auto share = [](const at::Tensor& yes) {
    return yes.to(at::kDouble).mean().item<double>();
  };

  const PrecisionRecall pr = precision_recall(sets, 3, kAlone);
  CHECK(pr.precision == share((between <= radii(reals, 3).unsqueeze(1)).any(0)));
  CHECK(pr.recall == share((between <= radii(fakes, 3).unsqueeze(0)).any(1)));
  CHECK(pr.precision < 1);

  const at::Tensor inside = between < radii(reals, 5).unsqueeze(1);
  const DensityCoverage dc = density_coverage(sets, 5, kAlone);
  CHECK(dc.density == Approx(inside.sum().item<double>() / (5 * 8300.0)).epsilon(1e-12));
  CHECK(dc.coverage == share(inside.any(1)));
}

TEST_CASE("ASetLiesWithinItsOwnManifold") {
  const at::Tensor rows = random(200, 12, 12, 100);
  const at::Tensor twice = at::cat({rows, rows});  // equal rows are at distance 0
  const PrecisionRecall own = precision_recall({twice, twice}, 3, kAlone);
  CHECK(own.precision == 1);
  CHECK(own.recall == 1);
  const PrecisionRecall far = precision_recall({rows, rows + 1000}, 3, kAlone);
  CHECK(far.precision == 0);
  CHECK(far.recall == 0);
  CHECK(density_coverage({rows, rows}, 5, kAlone).coverage == 1);
  CHECK(density_coverage({rows, rows + 1000}, 5, kAlone).density == 0);
}

TEST_CASE("InceptionScoreIsTheNumberOfClassesAtMost") {
  CHECK(inception_score(torch::eye(10).repeat({10, 1}), 10).mean == Approx(10).epsilon(1e-12));
  CHECK(inception_score(torch::eye(10).repeat({10, 1}), 10).deviation < 1e-12);
  CHECK(inception_score(torch::full({40, 8}, 0.125), 4).mean == Approx(1).epsilon(1e-12));
}

TEST_CASE("PercentilesLeaveOutTheEndsAlone") {
  std::vector<double> values;
  for (int i = 0; i <= 200; ++i) values.push_back(i);
  values.back() = 1e9;
  values.front() = -1e9;
  CHECK(mean_within_percentiles(values) == Approx(100).epsilon(1e-12));
  CHECK(mean_within_percentiles({5}) == 5);
}

}  // namespace
}  // namespace gantrain
