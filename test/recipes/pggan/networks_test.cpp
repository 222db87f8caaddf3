// SPDX-License-Identifier: Apache-2.0
#include "ops/resample.h"
#include "recipes/pggan/official.h"
#include "recipes/pggan/recipe.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;

namespace {

pggan::Shape tiny(int64_t resolution, int64_t channels = 3) {
  pggan::Shape shape;
  shape.resolution = resolution;
  shape.num_channels = channels;
  shape.net = {7, 32, 1, 8, true};
  return shape;
}

std::shared_ptr<pggan::Generator> made(const pggan::Shape& shape) {
  auto G = std::make_shared<pggan::Generator>(shape);
  initialise_equalised(*G, "G", 5);
  return G;
}

// "16/a0.3" of a key "G/16/a0.3".
StageLevel level_of_key(const std::vector<std::string>& parts) {
  return {parse_int(parts.at(1)).value(), parse_double(parts.at(2).substr(1)).value()};
}

}  // namespace

TEST_CASE("PicturesAndScoresOfEveryStageMatchTheOfficialNetworks") {
  const torch::NoGradGuard no_grad;
  for (const char* name : {"pggan16", "pggan16_unfused"}) {
    pggan::OfficialPair official(name);
    CoveredFixture reference(std::string(name) + "_io");
    const at::Tensor z = reference["in/z"];
    for (const std::string& key : reference.keys()) {
      const std::vector<std::string> parts = split(key, '/');
      if (parts[0] == "in") continue;
      CAPTURE(name, key);
      const StageLevel level = level_of_key(parts);
      const auto images = [&]() { return reference["in/img" + parts[1]]; };
      const at::Tensor value = parts[0] == "G"   ? official.G.forward(z, level)
                               : parts[0] == "D" ? official.D.forward(images(), level)
                                                 : fade_reals(images(), level.alpha);
      CHECK(scaled_error(value, reference[key]) < (parts[0] == "fade_reals" ? 1e-5 : 5e-5));
    }
    CHECK(reference.unused() == std::vector<std::string>());
  }
}

TEST_CASE("ParameterCountsAreTheOfficialOnes") {
  pggan::Shape shape;
  shape.resolution = 64;
  CHECK(count(pggan::Generator(shape)) == 22'490'383);
  CHECK(count(ProgressiveDiscriminator(pggan::discriminator_shape(shape))) == 22'498'049);
  shape.resolution = 1024;
  CHECK(count(pggan::Generator(shape)) == 23'079'115);
  CHECK(count(ProgressiveDiscriminator(pggan::discriminator_shape(shape))) == 23'087'249);
}

TEST_CASE("EveryLevelGivesPicturesOfItsSize") {
  for (const int64_t resolution : {4, 8, 32, 64}) {
    for (const int64_t channels : {1, 4}) {
      const auto G = made(tiny(resolution, channels));
      for (int64_t pixels = 4; pixels <= resolution; pixels *= 2) {
        const at::Tensor x = G->forward(torch::randn({2, 7}), {pixels, 0.5});
        CHECK(x.sizes() == at::IntArrayRef({2, channels, pixels, pixels}));
        CHECK(torch::isfinite(x).all().item<bool>());
      }
      CHECK_THROWS(G->forward(torch::randn({2, 7}), {2 * resolution}));
    }
  }
}

TEST_CASE("AnInvisibleLevelIsTheOneBelow") {
  const auto G = made(tiny(32));
  const at::Tensor z = torch::randn({3, 7});
  for (const int64_t pixels : {8, 32}) {
    CHECK(torch::allclose(G->forward(z, {pixels, 0}), nearest_up(G->forward(z, {pixels / 2, 1}))));
    CHECK_FALSE(torch::allclose(G->forward(z, {pixels, 0}), G->forward(z, {pixels, 1})));
  }
}

TEST_CASE("TheLengthOfZDoesNotMatter") {
  const auto G = made(tiny(8));
  const at::Tensor z = torch::randn({3, 7});
  CHECK(torch::allclose(G->forward(3 * z, {8}), G->forward(z, {8}), 1e-4, 1e-5));
}

TEST_CASE("WhatTakesPartIsWhatGetsAGradient") {
  const auto G = made(tiny(16));
  for (const StageLevel& level : {StageLevel{4},
                                  StageLevel{8, 0},
                                  StageLevel{8, 0.4},
                                  StageLevel{8},
                                  StageLevel{16, 0.4},
                                  StageLevel{16}}) {
    G->zero_grad(/*set_to_none=*/true);
    G->forward(torch::randn({2, 7}), level).square().mean().backward();
    for (const auto& item : G->named_parameters()) {
      CAPTURE(item.key(), level.pixels, level.alpha.host());
      CHECK(item.value().grad().defined() == G->active(item.key(), level.pixels, level.fading()));
    }
  }
}

TEST_CASE("InitialWeightsDependOnTheSeedAlone") {
  const auto digest = [](uint64_t seed) {
    pggan::Generator G(tiny(16));
    initialise_equalised(G, "G", seed);
    return sha256_of(state_of(G));
  };
  CHECK(digest(1) == digest(1));
  CHECK(digest(1) != digest(2));
}

TEST_CASE("AGeneratorsSizesAreReadOffItsTensors") {
  for (const int64_t resolution : {4, 8, 64}) {
    for (const bool fused : {true, false}) {
      pggan::Shape shape = tiny(resolution, 1);
      shape.net.fused_scale = fused;
      const pggan::Generator G(shape);
      auto tensors = tensors_of(G);
      const pggan::Shape read = pggan::generator_shape({}, tensors, "file");
      CHECK(read.resolution == resolution);
      CHECK(read.num_channels == 1);
      CHECK(read.net.latent_size == 7);
      CHECK(read.net.fused_scale == (fused || resolution == 4));
      CHECK_NOTHROW(load_into(pggan::Generator(read), tensors, "file"));
    }
  }
  CHECK_THROWS_WITH(pggan::generator_shape({}, {}, "file"), Catch::Contains("4x4.Dense.weight"));
  CHECK_THROWS_WITH(pggan::generator_shape({}, {{"4x4.Dense.weight", torch::ones({3})}}, "file"),
                    Catch::Contains("file: tensor 4x4.Dense.weight has shape [3]"));
}

// Scores that the recipe does not report; the rest of the fixture is in recipe_test.cpp.
TEST_CASE("ScoresOfInterpolatedPicturesMatchTheOfficialCode") {
  for (const std::string name : {"pggan16", "pggan16_unfused"}) {
    pggan::OfficialPair official(name);
    const TensorFile reference = fixture(name + "_loss");
    int compared = 0;
    for (const auto& [key, expected] : reference.tensors) {
      if (!key.ends_with("/mixed_scores")) continue;
      CAPTURE(name, key);
      const std::vector<std::string> parts = split(key, '/');
      const StageLevel level{parse_int(parts[1]).value(), parse_double(parts[2].substr(1)).value()};
      const auto D = [&](const at::Tensor& x) { return official.D.forward(x, level); };
      const DiscriminatorLoss d =
          pggan::d_loss(D,
                        reference.tensors.at("in/img" + parts[1]),
                        official.G.forward(reference.tensors.at("in/z" + parts[1]), level).detach(),
                        reference.tensors.at("in/mix" + parts[1]).reshape({-1, 1, 1, 1}),
                        10,
                        {},
                        16);
      CHECK(scaled_error(d.interpolated_scores.detach(), expected) < 1e-4);
      ++compared;
    }
    CHECK(compared == (name == "pggan16" ? 4 : 1));
  }
}

TEST_CASE("ThePenaltyByFullSizePicturesIsTheOneTakenThroughTheirReduction") {
  pggan::OfficialPair official("pggan16");
  const StageLevel level{8, 0.3};
  const auto D = [&](const at::Tensor& x) { return official.D.forward(x, level); };
  const auto reduced = [&](const at::Tensor& x) { return D(box_down(x)); };
  const at::Tensor real = torch::randn({8, 3, 8, 8}), fake = torch::randn({8, 3, 8, 8});
  const at::Tensor t = torch::rand({8, 1, 1, 1});
  pggan::LossOptions options;
  options.gp_size = PenaltySize::kFullres;
  const DiscriminatorLoss quick = pggan::d_loss(D, real, fake, t, 10, options, 16);
  options.gp_size = PenaltySize::kNative;
  const DiscriminatorLoss exact =
      pggan::d_loss(reduced, nearest_up(real), nearest_up(fake), t, 10, options, 16);
  CHECK(scaled_error(quick.interpolated_norms.detach(), exact.interpolated_norms.detach()) < 1e-5);
  CHECK(quick.loss.item<float>() == Approx(exact.loss.item<float>()).epsilon(1e-5));
}
