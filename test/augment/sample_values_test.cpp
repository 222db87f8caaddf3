// SPDX-License-Identifier: Apache-2.0
#include "augment/sample_values.h"

#include <cmath>
#include <vector>

#include "augment/known_draws.h"
#include "core/device.h"
#include "core/random.h"
#include "core/torch.h"
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "support/wait_counter.h"
#include "util/error.h"

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

namespace {

// A formula with every operation; x and y lie in (0, 1).
template <class Number>
Number everything(const Number& x, const Number& y) {
  using std::abs, std::cos, std::exp2, std::floor, std::nearbyint, std::sin, std::sqrt;
  const Number sums = (x + y) - (x - 3) + (2 - y) + (x + 1) - 0 + (0 + y);
  const Number products = x * y * 3 / y + 2 / (x + 1) + 0 * x + 1 * y + x * 1 - (-x);
  const Number functions = abs(x - y) + cos(x) + exp2(y * 3) + floor(5 * x) + sin(y) + sqrt(x);
  return sums + products / 7 + functions + nearbyint(9 * y) + clamped_to_unit(3 * x - 1);
}

}  // namespace

TEST_CASE("SampleNumbersComputeWhatDoublesDo") {
  const std::vector<double> x = {.1, .35, .5, .99}, y = {.9, .25, .125, .6};
  const SampleNumber xs(torch::tensor(x, at::kDouble)), ys(torch::tensor(y, at::kDouble));
  const at::Tensor all = everything(xs, ys).each();
  const at::Tensor half_known = everything(xs, SampleNumber(.3)).each();
  for (size_t i = 0; i < x.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    CHECK(all[n].item<double>() == Approx(everything(x[i], y[i])).epsilon(1e-14));
    CHECK(half_known[n].item<double>() == Approx(everything(x[i], .3)).epsilon(1e-14));
    const SampleNumber known = everything(SampleNumber(x[i]), SampleNumber(y[i]));
    REQUIRE(known.is_known());
    CHECK(known.known() == everything(x[i], y[i]));
  }
}

TEST_CASE("HalfWayCasesAreRoundedToEven") {
  const std::vector<double> x = {.5, 1.5, 2.5, -.5, -1.5};
  const at::Tensor rounded = nearbyint(SampleNumber(torch::tensor(x, at::kDouble))).each();
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(rounded[static_cast<int64_t>(i)].item<double>() == std::nearbyint(x[i]));
  }
}

TEST_CASE("ZerosAndOnesNeedNoOperatorOnTheDevice") {
  const SampleNumber x(torch::rand({3}, at::kDouble));
  for (const SampleNumber& same : {x + 0, 0 + x, x - 0, x * 1, 1 * x}) {
    CHECK(same.each().is_same(x.each()));
  }
  CHECK((x * 0).is_known());
  CHECK((0 / x).is_known());
}

TEST_CASE("ColumnsHoldKnownAndUnknownNumbers") {
  const at::Tensor x = torch::rand({3}, at::kDouble);
  const std::vector<SampleNumber> values = {1, SampleNumber(x), 0, SampleNumber(x[0]), 1};
  const at::Tensor columns = as_columns(values, 3, torch::zeros({1}, at::kFloat));
  CHECK(columns.sizes() == at::IntArrayRef({3, 5}));
  CHECK(columns.scalar_type() == at::kDouble);
  CHECK(at::equal(columns.select(1, 1), x));
  CHECK(at::equal(columns.select(1, 3), x[0].expand({3})));
  CHECK(at::equal(columns.select(1, 4), torch::ones({3}, at::kDouble)));
  CHECK(columns.select(1, 2).abs().sum().item<double>() == 0);
}

namespace {

DrawKey key(uint64_t seed, int64_t iteration, int64_t phase) {
  return make_draw_key(seed, iteration, phase, at::kCPU);
}

}  // namespace

TEST_CASE("DrawsDependOnNameIterationAndPhaseAlone") {
  StreamDraws a(key(7, 3, 1), {0, 1, 5}), b(key(7, 3, 1), {0, 1, 5});
  const at::Tensor first = a.uniform("xflip", {2});
  b.normal("scale", {1});
  b.uniform("xint", {2});
  CHECK(at::equal(b.uniform("xflip", {2}), first));
  CHECK_FALSE(at::equal(a.uniform("xflip/on", {2}), first));
  for (const DrawKey& other : {key(8, 3, 1), key(7, 4, 1), key(7, 3, 2)}) {
    CHECK_FALSE(at::equal(StreamDraws(other, {0, 1, 5}).uniform("xflip", {2}), first));
  }
}

TEST_CASE("DrawsAreThoseOfTheStreamOfTheirName") {
  StreamDraws draws(key(7, 3, 1), {1, 2, 5});
  const Samples samples{1, 2, 5};
  CHECK(at::equal(draws.uniform("xint", {2}),
                  uniform(Stream(7, "augment/xint", 3, 1), samples, {2})));
  CHECK(at::equal(draws.normal("noise/field", {3, 4, 4}),
                  normal(Stream(7, "augment/noise/field", 3, 1), samples, {3, 4, 4})));
}

TEST_CASE("AShareOfTheBatchKnowsTheWholeBatchsDraws") {
  StreamDraws share(key(7, 3, 1), {1, 3, 4});
  const std::unique_ptr<AugmentDraws> all = share.whole_batch();
  REQUIRE(all);
  const at::Tensor whole = all->normal("scale", {1});
  CHECK(whole.size(0) == 12);
  CHECK(at::equal(share.normal("scale", {1}), whole.slice(0, 1, {}, 3)));
  CHECK_FALSE(stream_draws(12).whole_batch());
}

// augment() as a device computes it whose reads wait, run on the CPU, against the CPU's own way.

namespace {

constexpr std::array<const char*, 11> kPipes = {
    "blit", "geom", "color", "filter", "noise", "cutout", "bg", "bgc", "bgcf", "bgcfn", "bgcfnc"};

struct Result {
  at::Tensor y, dx;
};

Result augmented(const at::Tensor& x, double p, const AugmentOptions& o, const Samples& samples) {
  StreamDraws draws(make_draw_key(1, 3, 0, at::kCPU), samples);
  const at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const at::Tensor y = augment(leaf, strength(p), o, draws) * 1;
  const at::Tensor dy = pictures(x.size(0), x.size(1), x.size(2), x.size(3)).cos().to(x);
  return {y.detach(), torch::autograd::grad({y}, {leaf}, {dy})[0]};
}

Result on_a_device(const at::Tensor& x, double p, const AugmentOptions& o, const Samples& samples) {
  const AssumeReadsWait reads_wait;
  return augmented(x, p, o, samples);
}

void check_alike(const at::Tensor& x, double p, const std::string& pipe, double tolerance) {
  const AugmentOptions o = augment_pipe(pipe);
  const Samples all{0, 1, x.size(0)};
  const Result host = augmented(x, p, o, all), device = on_a_device(x, p, o, all);
  CAPTURE(pipe, p, x.sizes());
  CHECK(scaled_error(device.y, host.y) < tolerance);
  CHECK(scaled_error(device.dx, host.dx) < tolerance);
  if (p == 0) CHECK(at::equal(device.y, x));
}

}  // namespace

TEST_CASE("ADevicesPathGivesTheCpusPicturesAndGradients") {
  const double p = GENERATE(0., .3, 1.);
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const at::Tensor x = pictures(4, channels, 22, 26);
  for (const char* pipe : kPipes) check_alike(x, p, pipe, 1e-9);
}

TEST_CASE("ADevicesPathGivesTheCpusPicturesInSinglePrecision") {
  const double p = GENERATE(0., .3, 1.);
  const at::Tensor x = pictures(4, 3, 32, 32).to(at::kFloat);
  for (const char* pipe : {"bgc", "bgcfnc"}) check_alike(x, p, pipe, 1e-4);
}

TEST_CASE("OnADeviceTwoRanksDrawWhatOneDraws") {
  const at::Tensor x = pictures(6, 3, 24, 24);
  const AugmentOptions o = augment_pipe("bgcfnc");
  const at::Tensor whole = on_a_device(x, .5, o, {0, 1, 6}).y;
  for (const int64_t rank : {0, 1}) {
    const at::Tensor mine = on_a_device(x.slice(0, rank, {}, 2), .5, o, {rank, 2, 3}).y;
    CHECK(difference(mine, whole.slice(0, rank, {}, 2)) < 1e-12);
  }
}

TEST_CASE("OnADeviceWithoutTransformsTheImagesThemselvesAreReturned") {
  const AssumeReadsWait reads_wait;
  const at::Tensor x = pictures(2, 3, 8, 8);
  StoredDraws none({});  // and nothing is drawn
  CHECK(augment(x, strength(1), only({}), none).is_same(x));
}

TEST_CASE("AugmentationWaitsForNoDevice") {
  const at::Tensor x = pictures(4, 3, 24, 24);
  const WaitCounter waits;
  augmented(x, .5, augment_pipe("bgcfnc"), {1, 2, 4});
  CHECK(waits.count() == 0);
  on_a_device(x, .5, augment_pipe("bgcfnc"), {1, 2, 4});
  CHECK(waits.count() == 0);
}

TEST_CASE("ADeviceRefusesWhatACpuRefuses") {
  const AssumeReadsWait reads_wait;
  StreamDraws draws = stream_draws(2);
  CHECK_THROWS_AS(augment(pictures(2, 17, 24, 24), strength(1), augment_pipe("bgc"), draws),
                  UserError);
  CHECK_THROWS_AS(augment(pictures(2, 3, 21, 64), strength(.5), augment_pipe("bgcf"), draws),
                  UserError);
  StreamDraws of_three = stream_draws(3);
  CHECK_THROWS(augment(pictures(2, 3, 24, 24), strength(1), augment_pipe("bgc"), of_three));
}
