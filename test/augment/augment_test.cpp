// SPDX-License-Identifier: Apache-2.0
#include "augment/augment.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "core/device.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

// Absolute, of images and of their gradients: the fixtures' measured float32 errors times 10.
constexpr double kImages = 2e-4;
constexpr double kGradients = 5e-4;

void check_percentiles(const std::string& tag) {
  const at::Tensor x = fixture("ada_" + tag + "_in").tensors.at("x");
  size_t compared = 0;
  for (const int percent : {10, 35, 50, 80, 95}) {
    const TensorFile file = fixture(fmt::format("ada_{}_q{}", tag, percent));
    for (const auto& [key, reference] : file.tensors) {
      if (key.rfind("out/", 0) != 0) continue;
      const std::string name = key.substr(4);
      const AugmentOptions o = name == "bgc" ? augment_pipe(name) : only({switches().at(name)});
      PercentileDraws draws(percent / 100., reference.size(0));
      const at::Tensor y = augment(x.narrow(0, 0, reference.size(0)), strength(1), o, draws);
      CAPTURE(percent, name);
      CHECK(difference(y, reference) < kImages);
      ++compared;
    }
    if (file.tensors.count("dx/bgc") == 0) continue;
    const at::Tensor leaf = x.detach().clone().requires_grad_(true);
    PercentileDraws draws(percent / 100., x.size(0));
    augment(leaf, strength(1), augment_pipe("bgc"), draws).backward(file.tensors.at("dy/bgc"));
    CHECK(difference(leaf.grad(), file.tensors.at("dx/bgc")) < kGradients);
  }
  CHECK(compared == 5 * 15);
}

void check_draws(const std::string& name, double p) {
  const TensorFile file = fixture(fmt::format("ada_draws_{}_p{}", name, p));
  std::vector<at::Tensor> numbers;
  for (const auto& [key, tensor] : file.tensors) {
    if (key.rfind("draw", 0) == 0) numbers.push_back(tensor);
  }
  StoredDraws draws(numbers);
  const at::Tensor x = file.tensors.at("x").requires_grad_(true);
  const at::Tensor y = augment(x, strength(p), augment_pipe(name), draws);
  CHECK(draws.left() == 0);
  CHECK(difference(y, file.tensors.at("y")) < kImages);
  y.backward(file.tensors.at("dy"));
  CHECK(difference(x.grad(), file.tensors.at("dx")) < kGradients);
}

}  // namespace

TEST_CASE("MatchesReferenceAtEachPercentile") {
  SECTION("32 pixels") { check_percentiles("32"); }
  SECTION("64 pixels") { check_percentiles("64"); }
  SECTION("32 pixels on a device whose reads wait") {
    const AssumeReadsWait reads_wait;
    check_percentiles("32");
  }
}

TEST_CASE("MatchesReferenceWithGivenDraws") {
  SECTION("bgc") { check_draws("bgc", .6); }
  SECTION("bgcfnc") { check_draws("bgcfnc", 1); }
  SECTION("on a device whose reads wait") {
    const AssumeReadsWait reads_wait;
    check_draws("bgc", .6);
    check_draws("bgcfnc", 1);
  }
}

TEST_CASE("StrengthZeroReturnsTheImagesThemselves") {
  const at::Tensor x = pictures(2, 3, 8, 8);
  StoredDraws none({});  // and draws nothing
  CHECK(augment(x, strength(0), augment_pipe("bgcfnc"), none).is_same(x));
  CHECK(augment(x, strength(1), only({}), none).is_same(x));
}

TEST_CASE("EachTransformAloneChangesThePictures") {
  const at::Tensor x = pictures(8, 3, 22, 22);
  for (const auto& [name, which] : switches()) {
    AugmentOptions o = only({which});
    StreamDraws draws = stream_draws(8);
    CAPTURE(name);
    CHECK(difference(augment(x, strength(1), o, draws), x) > .1);
  }
}

TEST_CASE("TwoRanksDrawWhatOneDraws") {
  const at::Tensor x = pictures(6, 3, 24, 24);
  for (const double p : {.3, 1.0}) {
    const auto share = [&](const Samples& samples) {
      StreamDraws draws(make_draw_key(5, 2, 0, at::kCPU), samples);
      const at::Tensor mine = x.slice(0, samples.first, {}, samples.stride);
      return augment(mine, strength(p), augment_pipe("bgcfnc"), draws);
    };
    const at::Tensor whole = share({0, 1, 6});
    CHECK(difference(share({0, 2, 3}), whole.slice(0, 0, {}, 2)) < 1e-12);
    CHECK(difference(share({1, 2, 3}), whole.slice(0, 1, {}, 2)) < 1e-12);
    CHECK(difference(share({2, 3, 2}), whole.slice(0, 2, {}, 3)) < 1e-12);
  }
}

TEST_CASE("OneToFourChannelsCanBeAugmented") {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const at::Tensor x = pictures(3, channels, 24, 24).to(at::kFloat);
    StreamDraws draws = stream_draws(3);
    const at::Tensor y = augment(x, strength(1), augment_pipe("bgcfnc"), draws);
    CHECK(y.sizes() == x.sizes());
    CHECK(y.scalar_type() == at::kFloat);
    CHECK(y.isfinite().all().item<bool>());
    for (int64_t c = 0; c < channels; ++c) CHECK(difference(y.select(1, c), x.select(1, c)) > .1);
  }
  StreamDraws draws = stream_draws(3);
  CHECK_THROWS_AS(augment(pictures(3, 5, 24, 24), strength(1), augment_pipe("bgc"), draws),
                  UserError);
}

TEST_CASE("OnlyTheImageFilterNeedsLargerPictures") {
  const at::Tensor x = pictures(2, 3, 21, 64), tiny = pictures(2, 3, 4, 4);
  StreamDraws draws = stream_draws(2);
  CHECK_THROWS_AS(augment(x, strength(.5), augment_pipe("bgcf"), draws), UserError);
  CHECK(augment(tiny, strength(1), augment_pipe("bgc"), draws).isfinite().all().item<bool>());
}

// augment(x) = J x + constant, so the backward's backward must be J again, on any vector.
TEST_CASE("TheSecondDerivativeIsTheForwardMap") {
  const bool on_a_device = GENERATE(false, true);
  const auto reads_wait = on_a_device ? std::make_unique<AssumeReadsWait>() : nullptr;
  const at::Tensor x = pictures(3, 3, 22, 22).requires_grad_(true);
  const at::Tensor v = torch::randn_like(x).requires_grad_(true), u = torch::randn_like(x);
  const auto f = [](const at::Tensor& images) {
    StreamDraws draws = stream_draws(3, 1);
    return augment(images, strength(.9), augment_pipe("bgcfnc"), draws);
  };
  const at::Tensor Ju = f(u) - f(torch::zeros_like(x));
  const at::Tensor Jtv = torch::autograd::grad({f(x)}, {x}, {v}, true, true)[0];
  CHECK(((Jtv * u).sum() - (v * Ju).sum()).abs().item<double>() < 1e-9);
  const at::Tensor back = torch::autograd::grad({Jtv}, {v}, {u})[0];
  CHECK(scaled_error(back, Ju) < 1e-12);
}

TEST_CASE("R1ThroughTheAugmentationMatchesFiniteDifferences") {
  const at::Tensor x = pictures(2, 3, 8, 8).requires_grad_(true);
  const at::Tensor w = torch::randn({3, 8, 8}, at::kDouble).requires_grad_(true);
  const auto penalty = [&](const at::Tensor& weight) {
    StreamDraws draws = stream_draws(2, 4);
    const at::Tensor y = augment(x, strength(1), augment_pipe("bgc"), draws);
    const at::Tensor score = (weight * y).tanh().sum();
    return torch::autograd::grad({score}, {x}, {}, true, true)[0].square().sum();
  };
  const at::Tensor slope = torch::autograd::grad({penalty(w)}, {w})[0];
  const at::Tensor direction = torch::randn_like(w);
  const double h = 1e-5;
  const double numeric =
      ((penalty(w + h * direction) - penalty(w - h * direction)) / (2 * h)).item<double>();
  CHECK((slope * direction).sum().item<double>() == Approx(numeric).epsilon(1e-6));
}

TEST_CASE("AutocastChangesNeitherPicturesNorGradients") {
  const bool on_a_device = GENERATE(false, true);
  const auto reads_wait = on_a_device ? std::make_unique<AssumeReadsWait>() : nullptr;
  const auto pictures_and_gradient = [](bool autocast) {
    at::autocast::set_autocast_enabled(at::kCPU, autocast);
    const at::Tensor x = pictures(2, 3, 22, 22).to(at::kFloat).requires_grad_(true);
    StreamDraws draws = stream_draws(2);
    const at::Tensor y = augment(x, strength(1), augment_pipe("bgcfnc"), draws);
    const at::Tensor dx = torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0];
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    return std::make_pair(y, dx);
  };
  const auto exact = pictures_and_gradient(false), mixed = pictures_and_gradient(true);
  CHECK(at::equal(mixed.first, exact.first));
  CHECK(at::equal(mixed.second, exact.second));
}
