// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "official.h"
#include "ops/resample.h"
#include "recipes/pggan/recipe.h"
#include "util/text.h"

using namespace gantrain;

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
