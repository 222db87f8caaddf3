// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_values.h"

#include <catch2/catch.hpp>

#include "augment/known_draws.h"

using namespace gantrain;

namespace {

const auto kProduct = [](const auto& before, const auto& made) {
  return matrix_product<3>(before, made);
};

// Two transforms of 3 x 3 matrices, each applied to about half of the samples.
template <class Number>
at::Tensor turned_and_moved(const Number& p) {
  StreamDraws draws = stream_draws(40);
  SampleValues<Number, 9> G(identity_matrix<3>());
  G.apply(
      {"scale", AugmentDistribution::kNormal, 1, p * .5},
      draws,
      [](const Number* n) {
        using std::exp2;
        return SampleMatrix<Number, 3>{exp2(*n), 2, 0, *n, 1 - *n, 0, 0, 0, 1};
      },
      kProduct);
  G.apply(
      {"xint", AugmentDistribution::kUniform, 2, p * .6},
      draws,
      [](const Number* u) {
        return SampleMatrix<Number, 3>{1, 0, u[0], 0, 1, -u[1], 0, 0, 1};
      },
      kProduct);
  return G.tensor();
}

}  // namespace

TEST_CASE("ATransformIsAppliedWithItsProbability") {
  constexpr int64_t kSamples = 4000;
  StreamDraws draws = stream_draws(kSamples);
  for (const double p : {0.0, .1, .6, 1.0, 3.0}) {
    const HostDrawn drawn =
        drawn_for(AugmentTransform<double>{"xint", AugmentDistribution::kUniform, 2, p}, draws);
    REQUIRE(drawn.number.size() == 2 * kSamples);
    const auto on = static_cast<double>(std::count(drawn.on.begin(), drawn.on.end(), true));
    CHECK(on / kSamples == Approx(std::min(p, 1.0)).margin(.025));  // 3 deviations
  }
}

TEST_CASE("HostAndDeviceApplyATransformToTheSameSamples") {
  StreamDraws draws = stream_draws(1000);
  for (const double p : {0.0, .3, 1.0}) {
    const HostDrawn host =
        drawn_for(AugmentTransform<double>{"xint", AugmentDistribution::kUniform, 2, p}, draws);
    for (const SampleNumber& probability : {SampleNumber(p), SampleNumber(strength(p))}) {
      const DeviceDrawn device = drawn_for(
          AugmentTransform<SampleNumber>{"xint", AugmentDistribution::kUniform, 2, probability},
          draws);
      REQUIRE(device.number.size() == 2);
      for (int64_t n = 0; n < 1000; ++n) {
        const auto i = static_cast<size_t>(n);
        REQUIRE(device.on[n].item<bool>() == host.on[i]);
        REQUIRE(device.number[1].each()[n].item<double>() == host.number[2 * i + 1]);
      }
    }
  }
}

TEST_CASE("HostAndDeviceMultiplyTheSameMatrices") {
  const at::Tensor host = turned_and_moved<double>(.9);
  CHECK(host.sizes() == at::IntArrayRef({40, 9}));
  CHECK(difference(turned_and_moved<SampleNumber>(SampleNumber(strength(.9))), host) < 1e-13);
}

TEST_CASE("ValuesAreMappedSampleBySample") {
  const at::Tensor numbers = torch::tensor({{1., 2.}, {3., -4.}}, at::kDouble);
  const SampleValues<SampleNumber, 2> device(numbers);
  const SampleValues<double, 2> host(std::vector<std::array<double, 2>>{{1, 2}, {3, -4}});
  const at::Tensor expected = torch::tensor({{2., 7., 1.}, {-12., 7., 3.}}, at::kDouble);
  const auto f = [](const auto& v) {
    using Number = std::decay_t<decltype(v[0])>;
    return std::array<Number, 3>{v[0] * v[1], 7, v[0]};
  };
  CHECK(at::equal(host.map<3>(f).tensor(), expected));
  CHECK(at::equal(device.map<3>(f).tensor(), expected));
  CHECK(SampleValues<SampleNumber, 2>(at::Tensor()).map<3>(f).empty());
}
