// SPDX-License-Identifier: Apache-2.0
#include "core/forward_precision.h"
#include "nn/style/layers.h"
#include "ops/resample.h"
#include "recipes/stylegan1/official.h"
#include "recipes/stylegan1/recipe.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/covered_fixture.h"
#include "support/tensor_checks.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;
using at::Tensor;
using stylegan1::Loss;

namespace {

std::shared_ptr<stylegan1::Generator> made(const stylegan1::Shape& shape, uint64_t seed = 5) {
  auto G = std::make_shared<stylegan1::Generator>(shape);
  stylegan1::initialise(*G, "G", seed);
  const torch::NoGradGuard no_grad;
  for (const auto& layer : G->synthesis->layers) layer->noise_weight->weight.normal_();
  return G;
}

at::Tensor images(stylegan1::Generator& G, const at::Tensor& z, const StageLevel& level) {
  return G.forward(z, {}, level, stored_noise());
}

// Everything of fixtures/stylegan1_16_io, by its key's parts after "out".
class Outputs {
 public:
  CoveredFixture reference{"stylegan1_16_io"};

  at::Tensor of(const std::vector<std::string>& parts) {
    const at::Tensor w = official_.G.mapping->forward(reference["in/z"]);
    const at::Tensor ws = for_all_layers(w, 6);
    if (parts[1] == "w") return w;
    if (parts[1] == "G" || parts[1] == "D") {
      const StageLevel level{parse_int(parts[2]).value(), parse_double(parts[3].substr(1)).value()};
      return parts[1] == "G" ? official_.images(ws, level)
                             : official_.D.forward(reference["in/img" + parts[2]], level);
    }
    return parts[1] == "trunc" ? truncation(parts, ws) : mixing(parts, w);
  }

 private:
  // "psi0.5_cutoff2/img"
  at::Tensor truncation(const std::vector<std::string>& parts, const at::Tensor& ws) {
    const std::vector<std::string> words = split(parts[2], '_');
    const at::Tensor cut = truncated(ws,
                                     official_.G.dlatent_avg,
                                     parse_double(words[0].substr(3)).value(),
                                     parse_int(words[1].substr(6)).value());
    return parts[3] == "w" ? cut : official_.images(cut, {16});
  }

  // "cut3/img", "scale8_a0.3_cut2/img", "dlatent_avg_after"
  at::Tensor mixing(const std::vector<std::string>& parts, const at::Tensor& w) {
    if (parts[2] == "dlatent_avg_after") {
      at::Tensor average = official_.G.dlatent_avg.clone();
      move_w_average_(average, w.mean(0), 0.995);
      return average;
    }
    const std::vector<std::string> words = split(parts[2], '_');
    const at::Tensor other = official_.G.mapping->forward(reference["in/z2"]);
    const at::Tensor ws = mix_styles(for_all_layers(w, 6),
                                     for_all_layers(other, 6),
                                     torch::tensor(parse_int(words.back().substr(3)).value()));
    if (parts[3] == "w") return ws;
    const StageLevel level = words.size() == 1
                                 ? StageLevel{16}
                                 : StageLevel{parse_int(words[0].substr(5)).value(),
                                              parse_double(words[1].substr(1)).value()};
    return official_.images(ws, level);
  }

  stylegan1::OfficialPair official_;
};

}  // namespace

TEST_CASE("EveryOutputMatchesTheOfficialNetworks") {
  const torch::NoGradGuard no_grad;
  Outputs outputs;
  for (const std::string& key : outputs.reference.keys()) {
    const std::vector<std::string> parts = split(key, '/');
    if (parts[0] == "in") continue;
    CAPTURE(key);
    CHECK(scaled_error(outputs.of(parts), outputs.reference[key]) < 5e-5);
  }
  CHECK(outputs.reference.unused() == std::vector<std::string>());
}

TEST_CASE("ParameterCountsAreTheOfficialOnes") {
  stylegan1::Shape shape;
  shape.resolution = 64;
  const stylegan1::Generator G(shape);
  CHECK(count(G) == 25'137'935);
  CHECK(count(*G.mapping) == 2'101'248);
  shape.resolution = 1024;
  CHECK(count(stylegan1::Generator(shape)) == 26'219'627);
}

TEST_CASE("EveryLevelGivesPicturesOfItsSize") {
  for (const int64_t resolution : {4, 8, 32, 64}) {
    for (const int64_t channels : {1, 4}) {
      const auto G = made(stylegan1::tiny_shape(resolution, channels));
      CHECK(G->num_ws() == layers_at(resolution));
      for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) {
        const at::Tensor x = images(*G, torch::randn({2, 7}), {pixels, 0.5});
        CHECK(x.sizes() == at::IntArrayRef({2, channels, pixels, pixels}));
        CHECK(torch::isfinite(x).all().item<bool>());
      }
    }
  }
}

TEST_CASE("AnInvisibleLevelIsTheOneBelow") {
  const auto G = made(stylegan1::tiny_shape(32));
  const at::Tensor z = torch::randn({3, 7});
  for (const int64_t pixels : {8, 32}) {
    CHECK(torch::allclose(images(*G, z, {pixels, 0}), nearest_up(images(*G, z, {pixels / 2, 1}))));
    CHECK_FALSE(torch::allclose(images(*G, z, {pixels, 0}), images(*G, z, {pixels, 1})));
  }
}

TEST_CASE("WhatTakesPartIsWhatGetsAGradient") {
  const auto G = made(stylegan1::tiny_shape(16, 3, 4));
  const at::Tensor labels = torch::tensor({1, 3});
  for (const StageLevel& level : {StageLevel{4},
                                  StageLevel{8, 0},
                                  StageLevel{8, 0.4},
                                  StageLevel{8},
                                  StageLevel{16, 0.4},
                                  StageLevel{16}}) {
    G->zero_grad(/*set_to_none=*/true);
    const auto noise =
        drawn_noise(make_draw_key(1, 0, 0, at::kCPU), {0, 1, 2}, G->dlatent_avg.options());
    G->forward(torch::randn({2, 7}), labels, level, noise).square().mean().backward();
    for (const auto& item : G->named_parameters()) {
      CAPTURE(item.key(), level.pixels, level.alpha.host());
      CHECK(item.value().grad().defined() == G->active(item.key(), level.pixels, level.fading()));
    }
  }
}

TEST_CASE("TheGradientOfAGradientIsFinite") {
  const auto G = made(stylegan1::tiny_shape(32));
  const at::Tensor ws = torch::randn({2, G->num_ws(), 6}).requires_grad_(true);
  const at::Tensor x = G->synthesis->forward(ws, {32, 0.5}, stored_noise());
  const at::Tensor slope =
      torch::autograd::grad({(x * torch::randn_like(x)).sum()}, {ws}, {}, true, true)[0];
  slope.square().sum().backward();
  int64_t reached = 0;
  for (const at::Tensor& p : G->synthesis->parameters()) {
    if (!p.grad().defined()) continue;
    ++reached;
    CHECK(torch::isfinite(p.grad()).all().item<bool>());
  }
  CHECK(reached > 30);
}

TEST_CASE("AClassMovesW") {
  const auto G = made(stylegan1::tiny_shape(8, 3, 4));
  const at::Tensor z = torch::randn({2, 7});
  const auto w = [&](const at::Tensor& labels) { return G->mapping->forward(z, labels); };
  CHECK_FALSE(torch::allclose(w(torch::tensor({0, 0})), w(torch::tensor({3, 3}))));
  CHECK(torch::allclose(w(torch::tensor({0, 3}))[1], w(torch::tensor({3, 3}))[1]));
  CHECK(w({}).sizes() == at::IntArrayRef({2, 6}));  // no class
}

TEST_CASE("ALevelUsesItsOwnLayersAlone") {
  const auto G = made(stylegan1::tiny_shape(16));
  const at::Tensor ws = torch::randn({1, 6, 6});
  at::Tensor others = ws.clone();
  others.narrow(1, 4, 2).normal_();  // those of 16 pixels
  const auto noise = no_noise();
  CHECK(torch::equal(G->synthesis->forward(ws, {8}, noise),
                     G->synthesis->forward(others, {8}, noise)));
  CHECK_FALSE(torch::equal(G->synthesis->forward(ws, {16}, noise),
                           G->synthesis->forward(others, {16}, noise)));
}

TEST_CASE("TheStartIsThePapersAndDependsOnTheSeedAlone") {
  const auto fresh = [](uint64_t seed) {
    auto G = std::make_shared<stylegan1::Generator>(stylegan1::tiny_shape(8, 3, 4));
    stylegan1::initialise(*G, "G", seed);
    return G;
  };
  const auto G = fresh(1);
  CHECK(sha256_of(state_of(*G)) == sha256_of(state_of(*fresh(1))));
  CHECK(sha256_of(state_of(*G)) != sha256_of(state_of(*fresh(2))));
  const auto parameters = G->named_parameters();
  CHECK(parameters["synthesis.4x4.Const.const"].min().item<float>() == 1);
  CHECK(parameters["synthesis.4x4.Const.const"].max().item<float>() == 1);
  for (const char* zero : {"synthesis.8x8.Conv1.bias",
                           "synthesis.8x8.Conv1.Noise.weight",
                           "synthesis.8x8.Conv1.StyleMod.bias",
                           "mapping.Dense0.bias"})
    CHECK(parameters[zero].abs().max().item<float>() == 0);
  CHECK(parameters["mapping.Dense0.weight"].std().item<double>() == Approx(100).epsilon(0.3));
  CHECK(parameters["synthesis.8x8.Conv1.weight"].std().item<double>() == Approx(1).epsilon(0.2));
  CHECK(G->named_buffers()["synthesis.noise3"].std().item<double>() == Approx(1).epsilon(0.3));
}

TEST_CASE("AGeneratorsSizesAreReadOffItsTensors") {
  for (const int64_t resolution : {4, 8, 64}) {
    for (const int64_t labels : {0, 3}) {
      const stylegan1::Generator G(stylegan1::tiny_shape(resolution, 1, labels));
      auto tensors = tensors_of(G);
      const stylegan1::Shape read = stylegan1::generator_shape({}, tensors, "file");
      CHECK(read.resolution == resolution);
      CHECK(read.label_size == labels);
      CHECK(read.net.latent_size == 7);
      CHECK(read.net.mapping_layers == 2);
      CHECK_NOTHROW(load_into(stylegan1::Generator(read), tensors, "file"));
    }
  }
  CHECK_THROWS_WITH(stylegan1::generator_shape({}, {}, "file"),
                    Catch::Contains("mapping.Dense0.weight"));
  CHECK_THROWS_AS(
      stylegan1::generator_shape({}, {{"mapping.Dense0.weight", torch::ones({2})}}, "f"),
      UserError);
}

// Scores that the recipe does not report; the rest of the fixture is in recipe_test.cpp.
TEST_CASE("ScoresOfInterpolatedPicturesMatchTheOfficialCode") {
  stylegan1::OfficialPair official;
  const TensorFile reference = fixture("stylegan1_16_loss");
  stylegan1::LossOptions options;
  options.kind = Loss::kWganGp;
  int compared = 0;
  for (const auto& [key, expected] : reference.tensors) {
    if (!key.ends_with("/scores.mixed")) continue;
    CAPTURE(key);
    const std::vector<std::string> parts = split(key, '/');
    const StageLevel level{parse_int(parts[1]).value(), parse_double(parts[2].substr(1)).value()};
    const at::Tensor w = official.G.mapping->forward(reference.tensors.at("in/z" + parts[1]));
    const DiscriminatorLoss d =
        stylegan1::d_loss([&](const at::Tensor& x) { return official.D.forward(x, level); },
                          reference.tensors.at("in/img" + parts[1]),
                          official.images(for_all_layers(w, 6), level).detach(),
                          reference.tensors.at("in/mix" + parts[1]).reshape({-1, 1, 1, 1}),
                          {},
                          options,
                          16);
    CHECK(scaled_error(d.interpolated_scores.detach(), expected) < 1e-4);
    ++compared;
  }
  CHECK(compared == 3);
}

TEST_CASE("HingeAndWassersteinShareTheGeneratorsLoss") {
  const at::Tensor scores = torch::randn({8});
  stylegan1::LossOptions o;
  for (const Loss kind : {Loss::kHinge, Loss::kWganGp}) {
    o.kind = kind;
    CHECK(stylegan1::g_loss(scores, o).item<float>() == Approx(-scores.mean().item<float>()));
  }
}

namespace {

std::shared_ptr<stylegan1::Generator> small() {
  stylegan1::Shape shape;
  shape.resolution = 16;
  shape.net.latent_size = shape.net.mapping_fmaps = shape.net.dlatent_size = 8;
  shape.net.mapping_layers = 2;
  shape.net.fmap_base = 128;
  shape.net.fmap_max = 8;
  return made(shape);
}

}  // namespace

TEST_CASE("ConvolutionsOfStyleGan1AreLoweredAndStylesAreNot") {
  const StageLevel fading{16, 0.3};
  const Tensor z = torch::sin(torch::arange(32, at::kFloat)).reshape({4, 8});
  const auto G = small();
  const Tensor full = G->forward(z, {}, fading, stored_noise());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const ForwardPrecision precision{type, {}};
    std::vector<Computed> computed;
    Tensor pictures;
    {
      const AutocastScope lowered(precision, at::kCPU, &computed);
      const BlockScope named("G");
      pictures = G->forward(z, {}, fading, stored_noise());
    }
    CAPTURE(c10::toString(type));
    CHECK(pictures.scalar_type() == at::kFloat);
    CHECK(scaled_error(pictures, full) < 5e-2);
    CHECK(scaled_error(pictures, full) > 1e-5);
    std::vector<std::string> autocast_blocks;
    for (const Computed& one : computed) {
      const bool style = one.block == "G.mapping" || one.block.ends_with("StyleMod") ||
                         one.block.ends_with("Const");
      CAPTURE(one.block);
      CHECK(one.type == (style ? at::kFloat : type));
      if (!style) autocast_blocks.push_back(one.block);
    }
    CHECK(autocast_blocks == std::vector<std::string>{"G.synthesis.4x4.Conv",
                                                      "G.synthesis.8x8.Conv0_up",
                                                      "G.synthesis.8x8.Conv1",
                                                      "G.synthesis.ToRGB_lod1",
                                                      "G.synthesis.16x16.Conv0_up",
                                                      "G.synthesis.16x16.Conv1",
                                                      "G.synthesis.ToRGB_lod0"});
    for (const Tensor& p : G->parameters()) p.mutable_grad() = Tensor();
    pictures.square().mean().backward();
    for (const auto& item : G->named_parameters()) {
      CAPTURE(item.key());
      if (!G->active(item.key(), 16, true)) continue;
      REQUIRE(item.value().grad().defined());
      CHECK(item.value().grad().scalar_type() == at::kFloat);
      CHECK(item.value().grad().isfinite().all().item<bool>());
    }
  }
}
