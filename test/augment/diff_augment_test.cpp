// SPDX-License-Identifier: Apache-2.0
#include "augment/diff_augment.h"

#include <ATen/autocast_mode.h>

#include "augment/augment.h"
#include "augment/known_draws.h"
#include "config/config.h"
#include "support/catch.h"
#include "support/gradient_checks.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr double kTolerance = 1e-5;  // scaled, of pictures and of gradients: the fixtures' README

// What the fixture's pictures were augmented by.
DiffAugmentDraws draws_of(const std::map<std::string, Tensor>& file, const DiffPolicy& policy) {
  DiffAugmentDraws draws;
  if (policy.color) {
    draws.brightness = file.at("in/brightness");
    draws.saturation = file.at("in/saturation");
    draws.contrast = file.at("in/contrast");
  }
  if (policy.translation) {
    draws.translation_rows = file.at("in/translation_rows");
    draws.translation_columns = file.at("in/translation_cols");
  }
  if (policy.cutout) {
    draws.cutout_row = file.at("in/cutout_row");
    draws.cutout_column = file.at("in/cutout_col");
  }
  return draws;
}

DrawKey key_of(int64_t iteration) { return make_draw_key(5, iteration, 0, at::kCPU); }

// Pictures of one sample after another, with drawn parts.
Tensor augmented(const Tensor& x, int64_t iteration = 0, const DiffPolicy& policy = {}) {
  const Size size{x.size(3), x.size(2)};
  return diff_augment(x, diff_augment_draws(policy, key_of(iteration), {0, 1, x.size(0)}, size));
}

Tensor whole(int64_t number) { return torch::full({1}, number, at::kLong); }

Tensor translated(const Tensor& x, int64_t rows, int64_t columns) {
  DiffAugmentDraws draws;
  draws.translation_rows = whole(rows);
  draws.translation_columns = whole(columns);
  return diff_augment(x, draws);
}

Tensor cut(const Tensor& x, int64_t row, int64_t column) {
  DiffAugmentDraws draws;
  draws.cutout_row = whole(row);
  draws.cutout_column = whole(column);
  return diff_augment(x, draws);
}

}  // namespace

TEST_CASE("DiffAugmentMatchesReference") {
  const auto file = fixture("proj_diffaug").tensors;
  const Tensor x = file.at("in/x");
  const std::map<std::string, DiffPolicy> policies = {
      {"color", {true, false, false}},
      {"translation", {false, true, false}},
      {"cutout", {false, false, true}},
      {"color_translation_cutout", {true, true, true}}};
  for (const auto& [name, policy] : policies) {
    CAPTURE(name);
    const Tensor leaf = x.detach().clone().requires_grad_(true);
    const Tensor y = diff_augment(leaf, draws_of(file, policy));
    CHECK(scaled_error(y, file.at("out/" + name)) < kTolerance);
    y.backward(file.at("in/dy"));
    const auto dx = file.find("dx/" + name);
    if (dx != file.end()) CHECK(scaled_error(leaf.grad(), dx->second) < kTolerance);
  }
}

TEST_CASE("EachColourOfDiffAugmentMatchesReference") {
  const auto file = fixture("proj_diffaug").tensors;
  const Tensor x = file.at("in/x").narrow(0, 0, 1);
  using D = DiffAugmentDraws;
  const std::map<std::string, Tensor D::*> colours = {
      {"brightness", &D::brightness}, {"saturation", &D::saturation}, {"contrast", &D::contrast}};
  for (const auto& [name, number] : colours) {
    CAPTURE(name);
    DiffAugmentDraws draws;
    draws.*number = file.at("in/" + name).narrow(0, 0, 1);
    CHECK(scaled_error(diff_augment(x, draws), file.at("out/" + name + "_sample0")) < kTolerance);
  }
}

TEST_CASE("ATranslationShowsZerosWhereThereIsNoPicture") {
  const Tensor x = torch::arange(1, 13, at::kFloat).view({1, 1, 3, 4});
  const Tensor y = translated(x, 1, -2)[0][0];
  CHECK(at::equal(y.slice(0, 0, 2).slice(1, 2), x[0][0].slice(0, 1).slice(1, 0, 2)));
  CHECK(y.sum().item<float>() == x[0][0].slice(0, 1).slice(1, 0, 2).sum().item<float>());
  CHECK(at::equal(translated(x, 0, 0), x));
}

TEST_CASE("ACutoutAtTheBorderStaysInsideThePicture") {
  const Tensor x = torch::ones({1, 2, 20, 10});  // squares of 4 rows and 2 columns
  CHECK((1 - cut(x, 10, 5)).sum().item<float>() == 2 * 4 * 2);
  CHECK((1 - cut(x, 0, 0)).sum().item<float>() == 2 * 2 * 1);
  CHECK((1 - cut(x, 20, 10)).sum().item<float>() == 2 * 2 * 1);
  CHECK(cut(x, 0, 0)[0][1][1][0].item<float>() == 0);
  CHECK(cut(x, 20, 10)[0][1][18][9].item<float>() == 0);
}

TEST_CASE("DrawsOfDiffAugmentReachBothEndsAndNoFurther") {
  constexpr int64_t kSamples = 4000;
  const DiffAugmentDraws draws =
      diff_augment_draws({}, key_of(0), {0, 1, kSamples}, {.width = 20, .height = 24});
  const auto ends = [](const Tensor& t) {
    return std::make_pair(t.min().item<int64_t>(), t.max().item<int64_t>());
  };
  CHECK(ends(draws.translation_rows) == std::make_pair<int64_t, int64_t>(-3, 3));
  CHECK(ends(draws.translation_columns) == std::make_pair<int64_t, int64_t>(-3, 3));
  CHECK(ends(draws.cutout_row) == std::make_pair<int64_t, int64_t>(0, 23));     // 5 rows
  CHECK(ends(draws.cutout_column) == std::make_pair<int64_t, int64_t>(0, 20));  // 4 columns
  for (const Tensor& u : {draws.brightness, draws.saturation, draws.contrast}) {
    CHECK(u.mean().item<double>() == Approx(.5).margin(.03));
    CHECK(u.min().item<double>() >= 0);
    CHECK(u.max().item<double>() < 1);
  }
}

TEST_CASE("TwoRanksDrawWhatOneDrawsWithDiffAugment") {
  const Tensor x = pictures(6, 3, 24, 24);
  const auto share = [&](const Samples& samples) {
    const Tensor mine = x.slice(0, samples.first, {}, samples.stride);
    return diff_augment(mine, diff_augment_draws({}, key_of(2), samples, {24, 24}));
  };
  const Tensor all = share({0, 1, 6});
  CHECK(difference(share({0, 2, 3}), all.slice(0, 0, {}, 2)) < 1e-12);
  CHECK(difference(share({2, 3, 2}), all.slice(0, 2, {}, 3)) < 1e-12);
  CHECK(difference(all, augmented(x, 3)) > .1);
}

TEST_CASE("AMissingPartOfDiffAugmentChangesNoOtherDraw") {
  const Tensor x = pictures(3, 3, 16, 16);
  const auto part = [&](const DiffPolicy& policy) {
    return diff_augment_draws(policy, key_of(0), {0, 1, 3}, {16, 16});
  };
  CHECK(at::equal(part({}).cutout_row, part({false, false, true}).cutout_row));
  CHECK_FALSE(part({true, false, true}).translation_rows.defined());
  CHECK(at::equal(diff_augment(x, part({false, false, false})), x));
}

TEST_CASE("DerivativesOfDiffAugmentMatchFiniteDifferences") {
  const Tensor x = pictures(3, 3, 12, 10);
  const TensorFunction f = [](const Tensors& in) { return augmented(in[0]).tanh(); };
  CHECK(gradient_error(f, {x}) < kGradientTolerance);
  CHECK(second_gradient_error(f, {x}) < kGradientTolerance);
}

TEST_CASE("R1ThroughDiffAugmentMatchesFiniteDifferences") {
  const Tensor x = pictures(2, 3, 8, 8).requires_grad_(true);
  const Tensor w = torch::randn({3, 8, 8}, at::kDouble).requires_grad_(true);
  const auto penalty = [&](const Tensor& weight) {
    const Tensor score = (weight * augmented(x)).tanh().sum();
    return torch::autograd::grad({score}, {x}, {}, true, true)[0].square().sum();
  };
  const Tensor slope = torch::autograd::grad({penalty(w)}, {w})[0];
  const Tensor direction = torch::randn_like(w);
  const double h = 1e-5;
  const double numeric =
      ((penalty(w + h * direction) - penalty(w - h * direction)) / (2 * h)).item<double>();
  CHECK((slope * direction).sum().item<double>() == Approx(numeric).epsilon(1e-6));
}

TEST_CASE("DiffAugmentIsTheSameUnderAutocastAndDeterministicAlgorithms") {
  const auto pictures_and_gradient = [] {
    const Tensor x = pictures(2, 3, 16, 16).to(at::kFloat).requires_grad_(true);
    const Tensor y = augmented(x);
    return std::make_pair(y, torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0]);
  };
  const auto plain = pictures_and_gradient();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto mixed = pictures_and_gradient();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const auto deterministic = pictures_and_gradient();
  at::globalContext().setDeterministicAlgorithms(false, false);
  for (const auto& other : {mixed, deterministic}) {
    CHECK(at::equal(other.first, plain.first));
    CHECK(at::equal(other.second, plain.second));
  }
}

TEST_CASE("DiffAugmentKnowsOneToSixteenChannelsAndColoursOfUpToFour") {
  for (const int64_t channels : {1, 2, 3, 4, 5, 16}) {
    const Tensor x = pictures(3, channels, 24, 16).to(at::kFloat);
    CHECK(augmented(x).sizes() == x.sizes());
    CHECK(augmented(x).scalar_type() == at::kFloat);
  }
  const Tensor alpha = pictures(3, 4, 8, 8);
  const Tensor coloured = augmented(alpha, 0, {true, false, false});
  CHECK(at::equal(coloured.narrow(1, 3, 1), alpha.narrow(1, 3, 1)));
  CHECK(difference(coloured.narrow(1, 0, 3), alpha.narrow(1, 0, 3)) > .1);
  const Tensor stack = pictures(3, 5, 8, 8);
  CHECK(at::equal(augmented(stack, 0, {true, false, false}), stack));
  CHECK_THROWS_AS(augmented(pictures(1, 17, 8, 8)), UserError);
}

TEST_CASE("RealGeneratedAndMixedPicturesHaveDrawsOfTheirOwn") {
  const Tensor x = pictures(4, 3, 16, 16);
  const auto seen = [&](DiffAugmentMode mode, Shown kind, int64_t phase) {
    return seen_by_D({mode, {}}, x, kind, key_of(0).of_phase(phase), {0, 1, 4});
  };
  CHECK(seen(DiffAugmentMode::kOff, Shown::kReal, 0).is_same(x));
  std::vector<Tensor> all;
  for (const int64_t phase : {0, 1}) {
    for (const Shown kind : {Shown::kFake, Shown::kReal, Shown::kBetween})
      all.push_back(seen(DiffAugmentMode::kDiff, kind, phase));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) CHECK(difference(all[i], all[j]) > .1);
  }
  CHECK(at::equal(all[1], seen(DiffAugmentMode::kDiff, Shown::kReal, 0)));
}

namespace {

struct BothOptions {
  AugmentChoice<AugmentMode> choice;
  AdaOptions ada;
};

template <class Field>
void fields(BothOptions& o, Field&& field) {
  field("augment", o.choice, "choice");
  field("ada", o.ada, "ADA");
}

using Pairs = std::map<std::string, std::string>;

// The values of augment.mode and ada.mode after those of a preset and those of a user.
std::pair<std::string, std::string> modes(const Pairs& preset, const Pairs& user) {
  Schema schema;
  add_keys<BothOptions>(schema);
  Config config(schema);
  for (const auto& [key, value] : preset) config.set(key, value, "preset p");
  for (const auto& [key, value] : user) config.set(key, value, "flag --set");
  choose_augmentation(config);
  choose_augmentation(config);  // a second time changes nothing
  return {config.get("augment.mode"), config.get("ada.mode")};
}

using Modes = std::pair<std::string, std::string>;

}  // namespace

TEST_CASE("TheTwoModesOfAugmentationAgree") {
  const std::string augment = "augment.mode", ada = "ada.mode";
  CHECK(modes({}, {}) == Modes("ada", "none"));
  CHECK(modes({}, {{augment, "diff"}}) == Modes("diff", "none"));
  CHECK(modes({}, {{augment, "ada"}}) == Modes("ada", "ada"));
  CHECK(modes({{ada, "ada"}}, {}) == Modes("ada", "ada"));
  CHECK(modes({{ada, "fixed"}}, {{augment, "diff"}}) == Modes("diff", "none"));
  CHECK(modes({{ada, "fixed"}}, {{augment, "off"}}) == Modes("off", "none"));
  CHECK(modes({{ada, "fixed"}}, {{augment, "ada"}}) == Modes("ada", "fixed"));
  CHECK(modes({{augment, "diff"}}, {}) == Modes("diff", "none"));
  CHECK(modes({{augment, "diff"}, {ada, "ada"}}, {}) == Modes("diff", "none"));
  CHECK(modes({{augment, "diff"}}, {{ada, "ada"}}) == Modes("ada", "ada"));
  CHECK(modes({{augment, "diff"}}, {{ada, "none"}}) == Modes("off", "none"));
  // A run's own config.json gives both.
  CHECK(modes({}, {{augment, "ada"}, {ada, "none"}}) == Modes("ada", "none"));
  CHECK(modes({}, {{augment, "diff"}, {ada, "none"}}) == Modes("diff", "none"));
  CHECK_THROWS_AS(modes({}, {{augment, "diff"}, {ada, "ada"}}), UserError);
  CHECK_THROWS_AS(modes({}, {{augment, "off"}, {ada, "fixed"}}), UserError);
}

TEST_CASE("APolicyIsTheNamesOfItsParts") {
  using V = Value<DiffPolicy>;
  CHECK(V::to_json({}) == "color,translation,cutout");
  CHECK(V::to_json(V::from_text("cutout, color").value()) == "color,cutout");
  CHECK_FALSE(V::from_text("colour"));
  CHECK_FALSE(V::from_text(""));
}

// The strengths of an augmentation that is off cannot be those that it was given.
TEST_CASE("AdaOfModeDiffHasNoStrength") {
  AdaOptions ada{.mode = Augmentation::kFixed, .p = .5, .adaptive = {}};
  const Ada::Pictures made_for{{16, 16}, 3, 4, at::kCPU};
  const Ada diff(ada, {}, {AugmentMode::kDiff, {}}, made_for);
  CHECK(diff.p().item<double>() == 0);
  const Tensor x = pictures(4, 3, 16, 16);
  CHECK(difference(diff(x, key_of(0), {0, 1, 4}), augmented(x)) == 0);
  const Ada off(ada, {}, {AugmentMode::kOff, {}}, made_for);
  CHECK(off(x, key_of(0), {0, 1, 4}).is_same(x));
}

TEST_CASE("AFixedStrengthIsThatOfTheConfigurationWhateverAStateSays") {
  const AdaOptions ada{.mode = Augmentation::kFixed, .p = .6, .adaptive = {}};
  const Ada fixed(ada, {}, {AugmentMode::kAda, {}}, {{16, 16}, 3, 4, at::kCPU});
  for (auto& [name, tensor] : fixed.state()) {
    if (name == "ada/p") tensor.detach().fill_(.2);
  }
  CHECK(fixed.p().item<double>() == .6);
}
