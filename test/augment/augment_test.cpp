// SPDX-License-Identifier: Apache-2.0
#include "augment/augment.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include <map>

#include "augment/augment_options.h"
#include "augment/known_draws.h"
#include "augment/wavelets.h"
#include "config/config.h"
#include "core/device.h"
#include "support/catch.h"
#include "support/gradient_checks.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;
using O = AugmentOptions;

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
}

TEST_CASE("OfMoreThanFourChannelsColoursStayAndSixteenAreTheMost") {
  const at::Tensor x = pictures(3, 5, 24, 24).to(at::kFloat);
  StreamDraws draws = stream_draws(3);
  CHECK(difference(augment(x, strength(1), augment_pipe("color"), draws), x) == 0);
  for (const char* pipe : {"blit", "geom", "filter", "noise"}) {
    CAPTURE(pipe);
    StreamDraws same = stream_draws(3);
    const at::Tensor y = augment(x, strength(1), augment_pipe(pipe), same);
    for (int64_t c = 0; c < 5; ++c) CHECK(difference(y.select(1, c), x.select(1, c)) > 0);
  }
  CHECK_THROWS_AS(augment(pictures(3, 17, 24, 24), strength(1), augment_pipe("bgc"), draws),
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

namespace {

at::Tensor color(const at::Tensor& x, const AugmentOptions& o, double q) {
  PercentileDraws draws(q, x.size(0));
  return augment_color(x, strength(1), o, draws);
}

const double kNormal = .4769362762044699;  // erfinv(.5), what PercentileDraws gives at q = .75

}  // namespace

TEST_CASE("EachColourTransformIsWhatItsNameSays") {
  const at::Tensor x = pictures(2, 3, 5, 7);
  const at::Tensor luma = x.mean(1, true);
  const at::Tensor chroma = x - luma;
  CHECK(difference(color(x, only({&O::brightness}), .75), x + .2 * kNormal) < 1e-7);
  CHECK(difference(color(x, only({&O::contrast}), .75), x * std::exp2(.5 * kNormal)) < 1e-7);
  CHECK(difference(color(x, only({&O::lumaflip}), .75), chroma - luma) < 1e-7);
  CHECK(difference(color(x, only({&O::lumaflip}), .25), x) < 1e-7);
  CHECK(difference(color(x, only({&O::saturation}), .75), luma + chroma * std::exp2(kNormal)) <
        1e-7);
  AugmentOptions third = only({&O::hue});
  third.hue_max = 2. / 3;  // u = 1: a third of a turn
  const at::Tensor turned = color(x, third, 1);
  const bool one_way = difference(turned, x.roll(1, 1)) < 1e-6;
  const bool other_way = difference(turned, x.roll(-1, 1)) < 1e-6;
  CHECK(one_way != other_way);
}

TEST_CASE("GreyIsColouredAsRgbWithEqualChannels") {
  const at::Tensor grey = pictures(6, 1, 4, 4);
  const AugmentOptions o = augment_pipe("color");
  StreamDraws a = stream_draws(6), b = stream_draws(6);
  const at::Tensor rgb = augment_color(grey.expand({6, 3, 4, 4}), strength(.8), o, a);
  CHECK(difference(augment_color(grey, strength(.8), o, b).expand_as(rgb), rgb) < 1e-6);
}

TEST_CASE("AlphaKeepsItsValues") {
  const AugmentOptions o = augment_pipe("color");
  for (const int64_t colours : {1, 3}) {
    const at::Tensor x = pictures(6, colours + 1, 4, 4);
    StreamDraws a = stream_draws(6), b = stream_draws(6);
    const at::Tensor y = augment_color(x, strength(1), o, a);
    CHECK(at::equal(y.narrow(1, colours, 1), x.narrow(1, colours, 1)));
    CHECK(at::equal(y.narrow(1, 0, colours),
                    augment_color(x.narrow(1, 0, colours).contiguous(), strength(1), o, b)));
  }
}

TEST_CASE("EqualGainsOfAllBandsChangeNothing") {
  const at::Tensor x = pictures(2, 3, 24, 24);
  AugmentOptions o = only({&O::imgfilter});
  o.imgfilter_std = 0;
  StreamDraws draws = stream_draws(2);
  CHECK(difference(augment_filter(x, strength(1), o, draws), x) < 1e-12);
}

TEST_CASE("TheFilterKeepsTheExpectedPower") {
  // A band of gain t with all others: constants see the lowest band's gain alone.
  const at::Tensor x = torch::ones({1, 1, 22, 22}, at::kDouble);
  AugmentOptions o = only({&O::imgfilter});
  o.imgfilter_bands = {0, 0, 0, 1};
  const double t = std::exp2(1.0);
  o.imgfilter_std = 1 / torch::erfinv(torch::tensor(.5, at::kDouble)).item<double>();
  struct OneBand final : AugmentDraws {  // bands' multipliers become probabilities 0 and 1
    at::Tensor uniform(const std::string&, at::IntArrayRef) override { return at::full({1}, .5); }
    at::Tensor normal(const std::string&, at::IntArrayRef) override {
      return at::full({1, 1}, .4769362762044699);
    }
  } draws;
  const double keep = 1 / std::sqrt((12 + t * t) / 13);
  // Rows and columns: the gain twice.
  CHECK(difference(augment_filter(x, strength(1), o, draws), x * keep * keep) < 1e-6);
}

TEST_CASE("NoiseHasTheDrawnDeviation") {
  const at::Tensor x = torch::zeros({4, 3, 64, 64});
  StreamDraws draws = stream_draws(4), again = stream_draws(4);
  const at::Tensor y = augment_noise(x, strength(1), only({&O::noise}), draws);
  const at::Tensor sigma = again.normal("noise", {1}).abs() * .1;
  for (int64_t n = 0; n < 4; ++n) {
    CHECK(y[n].std().item<double>() == Approx(sigma[n].item<double>()).epsilon(.03));
    CHECK(std::abs(y[n].mean().item<double>()) < .05 * sigma[n].item<double>());
  }
}

TEST_CASE("CutoutGreysOneRectangle") {
  const at::Tensor x = torch::ones({1, 2, 32, 48});
  PercentileDraws middle(.5, 1), corner(0, 1);
  const at::Tensor inside = augment_cutout(x, strength(1), only({&O::cutout}), middle);
  CHECK(inside.slice(2, 8, 24).slice(3, 12, 36).abs().max().item<float>() == 0);
  CHECK(inside.sum().item<double>() == 2 * 32 * 48 * .75);
  const at::Tensor outside =
      augment_cutout(x, strength(1), only({&O::cutout}), corner);  // sticks out
  CHECK(outside.sum().item<double>() == 2 * 32 * 48 * .9375);
  CHECK(outside[0][0][0][0].item<float>() == 0);
}

TEST_CASE("SamplesThatAreNotChosenStayAsTheyAre") {
  const at::Tensor x = pictures(64, 3, 22, 22);
  StreamDraws again = stream_draws(64);
  const auto check = [&](const at::Tensor& y, const std::string& name, double tolerance) {
    const at::Tensor on = again.uniform(name + "/on", {}) < .5;
    const at::Tensor moved = (y - x).abs().amax({1, 2, 3});
    CAPTURE(name);
    CHECK(moved.masked_select(on.logical_not()).max().item<double>() <= tolerance);
    CHECK(moved.masked_select(on).max().item<double>() > .1);
  };
  StreamDraws draws = stream_draws(64);
  check(augment_noise(x, strength(.5), only({&O::noise}), draws), "noise", 0);
  check(augment_cutout(x, strength(.5), only({&O::cutout}), draws), "cutout", 0);
  AugmentOptions second_band = only({&O::imgfilter});
  second_band.imgfilter_bands = {0, 1, 0, 0};
  check(augment_filter(x, strength(.5), second_band, draws), "imgfilter/2", 1e-12);
}

namespace {

at::Tensor geometry(const at::Tensor& x, const AugmentOptions& o, double u) {
  PercentileDraws draws(u, x.size(0));
  return augment_geometry(x, strength(1), o, draws);
}

// Away from the border, whose mirror image has a crease.
double inner_difference(const at::Tensor& a, const at::Tensor& b) {
  const auto inner = [](const at::Tensor& x) {
    return x.slice(2, 6, x.size(2) - 6).slice(3, 6, x.size(3) - 6);
  };
  return difference(inner(a), inner(b));
}
// sym6 is not symmetric: a turned filter does not undo an unturned one, and a flipped picture lies
// .098 pixels aside. These pictures change by less than .19 from pixel to pixel.
constexpr double kAside = .1 * .19;
constexpr double kUnturned = 1e-6;  // sym6 is orthonormal

}  // namespace

TEST_CASE("NoTransformAtAllGivesThePictureBack") {
  const at::Tensor x = torch::randn({2, 3, 16, 16}, at::kDouble);
  CHECK(difference(geometry(x, only({&O::xflip}), .2), x) < kUnturned);
  CHECK(difference(geometry(x, only({&O::rotate90}), .2), x) < kUnturned);
}

TEST_CASE("BlitsMoveWholePixels") {
  const at::Tensor x = pictures(2, 3, 32, 32);
  CHECK(inner_difference(geometry(x, only({&O::xflip}), .7), x.flip(3)) < kAside);
  for (const int64_t turns : {1, 2, 3}) {  // against the clock
    const at::Tensor turned = at::rot90(x, turns, {2, 3});
    const double u = (static_cast<double>(turns) + .5) / 4;
    CHECK(inner_difference(geometry(x, only({&O::rotate90}), u), turned) < 2 * kAside);
  }
}

TEST_CASE("WholePixelShiftsMirrorAtTheBorder") {
  const at::Tensor x = pictures(1, 2, 16, 16);
  AugmentOptions o = only({&O::xint});
  o.xint_max = .25;  // u = .875: .75 * .25 * 16 = 3 pixels right and down
  const at::Tensor shifted = at::reflection_pad2d(x, {3, 0, 3, 0}).slice(2, 0, 16).slice(3, 0, 16);
  CHECK(difference(geometry(x, o, .875), shifted) < kUnturned);
}

TEST_CASE("ARotationByAQuarterIsAQuarterTurn") {
  const at::Tensor x = pictures(2, 1, 32, 32);
  const at::Tensor turned = geometry(x, only({&O::rotate90}), .3);
  CHECK(difference(geometry(x, only({&O::rotate}), .75), turned) < 1e-12);
}

TEST_CASE("ScalingUpShowsTheMiddleLarger") {
  AugmentOptions o = only({&O::scale});
  const at::Tensor x = torch::zeros({1, 1, 32, 32});
  x.slice(2, 12, 20).slice(3, 12, 20).fill_(1);
  const double area = x.sum().item<double>();
  const double n = torch::erfinv(torch::tensor(.5)).item<double>();  // q = .75
  o.scale_std = 1 / n;                                               // 2^1
  CHECK(geometry(x, o, .75).sum().item<double>() == Approx(4 * area).epsilon(.01));
  o = only({&O::aniso});
  o.aniso_std = 1 / n;
  const at::Tensor wide = geometry(x, o, .75).slice(2, 8, 24);  // beyond are mirror images
  CHECK(wide.sum().item<double>() == Approx(area).epsilon(.01));
  CHECK(wide[0][0][8][9].item<double>() == Approx(1).margin(.1));  // twice as wide
  CHECK(wide[0][0][3][16].item<double>() == Approx(0).margin(.1));
}

TEST_CASE("AThirdOfFlipsIsSeenAtTwoThirds") {
  constexpr int64_t kSamples = 2000;
  const at::Tensor x = pictures(1, 1, 4, 4).expand({kSamples, 1, 4, 4}).to(at::kFloat);
  StreamDraws draws = stream_draws(kSamples);
  const at::Tensor y = augment_geometry(x, strength(2. / 3), only({&O::xflip}), draws);
  const at::Tensor flipped = (y - x).abs().amax({1, 2, 3}) > .05;
  CHECK(flipped.to(at::kDouble).mean().item<double>() == Approx(1. / 3).margin(.032));
}

TEST_CASE("PicturesNeedNotBeSquare") {
  const at::Tensor x = pictures(2, 3, 24, 40);
  CHECK(inner_difference(geometry(x, only({&O::xflip}), .7), x.flip(3)) < kAside);
  const at::Tensor y = geometry(x, only({&O::rotate90, &O::rotate, &O::scale, &O::xfrac}), .6);
  CHECK(y.sizes() == x.sizes());
  CHECK(y.isfinite().all().item<bool>());
}

TEST_CASE("AConstantPictureStaysConstantWhateverTheMargins") {
  const at::Tensor x = torch::full({8, 3, 16, 16}, .5);
  AugmentOptions o = augment_pipe("bg");
  o.scale_std = .05;  // further out a mirror ends
  o.xfrac_std = .05;
  StreamDraws draws = stream_draws(8);
  CHECK(difference(augment_geometry(x, strength(1), o, draws), x) < .02);
}

TEST_CASE("GeometryIsTwiceDifferentiable") {
  const TensorFunction f = [](const Tensors& inputs) {
    StreamDraws draws = stream_draws(2, 7);
    return augment_geometry(inputs[0], strength(1), augment_pipe("bg"), draws);
  };
  const at::Tensor x = pictures(2, 2, 6, 6);
  CHECK(gradient_error(f, {x}) < kGradientTolerance);
  CHECK(second_gradient_error(f, {x}) < kGradientTolerance);
}

TEST_CASE("TheDefaultIsThePipeBgc") {
  const AugmentOptions bgc = augment_pipe("bgc"), o;
  for (const auto& [name, which] : switches()) {
    CAPTURE(name);
    CHECK(o.*which == bgc.*which);
  }
}

TEST_CASE("PipesAreUnionsOfTheirGroups") {
  const std::map<std::string, std::vector<std::string>> groups = {
      {"bg", {"blit", "geom"}},
      {"bgc", {"blit", "geom", "color"}},
      {"bgcf", {"blit", "geom", "color", "filter"}},
      {"bgcfn", {"blit", "geom", "color", "filter", "noise"}},
      {"bgcfnc", {"blit", "geom", "color", "filter", "noise", "cutout"}}};
  for (const auto& [name, parts] : groups) {
    const AugmentOptions all = augment_pipe(name);
    for (const auto& [key, which] : switches()) {
      double sum = 0;
      for (const std::string& part : parts) sum += augment_pipe(part).*which;
      CAPTURE(name, key);
      CHECK(all.*which == sum);
    }
  }
  double switched_on = 0;
  const AugmentOptions everything = augment_pipe("bgcfnc");
  for (const auto& [key, which] : switches()) switched_on += everything.*which;
  CHECK(switched_on == static_cast<double>(switches().size()));
}

TEST_CASE("AnUnknownPipeIsAnsweredWithTheNames") {
  try {
    augment_pipe("bgx");
    FAIL("no error");
  } catch (const UserError& error) {
    CHECK(error.code() == Exit::kUsage);
    for (const char* word : {"bgx", "blit", "bgc,", "bgcfnc"}) {
      CHECK(std::string(error.what()).find(word) != std::string::npos);
    }
  }
}

TEST_CASE("EveryAugmentationKeyIsReachable") {
  Schema schema;
  add_keys<AugmentOptions>(schema);
  add_keys<AdaptiveOptions>(schema);
  Config config(schema);
  for (const auto& [key, which] : switches()) config.set("ada." + key, .5, "test");
  config.set("ada.imgfilter_band3", 2, "test");
  config.set("ada.kimg", "100", "test");
  const auto o = config.read<AugmentOptions>();
  for (const auto& [key, which] : switches()) CHECK(o.*which == .5);
  CHECK(o.imgfilter_bands == std::array<double, 4>{1, 1, 2, 1});
  CHECK(config.read<AdaptiveOptions>().kimg.images == 100'000);
  CHECK_THROWS_AS(config.set("ada.xflip", -1, "test"), UserError);
  CHECK_THROWS_AS(config.set("ada.cutout_size", 2, "test"), UserError);
  CHECK_THROWS_AS(config.set("ada.interval", 0, "test"), UserError);
}

TEST_CASE("PicturesThatCannotBeAugmentedAreRefused") {
  CHECK_NOTHROW(check_augment(augment_pipe("bgc"), {4, 4}, 1));
  CHECK_NOTHROW(check_augment(augment_pipe("bgcfnc"), {22, 22}, 4));
  CHECK_THROWS_AS(check_augment(augment_pipe("bgcf"), {21, 64}, 3), UserError);
  CHECK_THROWS_AS(check_augment(augment_pipe("bgc"), {64, 64}, 17), UserError);
}
