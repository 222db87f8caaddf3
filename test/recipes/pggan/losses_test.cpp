// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/losses.h"

#include <catch2/catch.hpp>

#include "covered_fixture.h"
#include "official.h"
#include "ops/resample.h"
#include "util/text.h"

using namespace gantrain;

namespace {

struct Computed {
  TensorMap values;     // by their names in the fixture
  TensorMap gradients;  // by official names, in official layouts
};

TensorMap official_gradients(const torch::nn::Module& net) {
  TensorMap all;
  for (const auto& item : net.named_parameters()) {
    if (item.value().grad().defined()) all[item.key()] = item.value().grad();
  }
  return to_official(all, "", "", pggan::layout_of);
}

// A loss at "KIND/r/aALPHA[/MODE]" of a fixture.
class Losses {
 public:
  explicit Losses(const std::string& name) : official_(name), reference_(name + "_loss") {}

  CoveredFixture& reference() { return reference_; }

  Computed at(const std::vector<std::string>& parts) {
    const Level level{parse_int(parts[1]).value(), parse_double(parts[2].substr(1)).value()};
    official_.G.zero_grad(/*set_to_none=*/true);
    official_.D.zero_grad(/*set_to_none=*/true);
    const at::Tensor z = reference_["in/z" + parts[1]];
    const auto D = [&](const at::Tensor& x) { return official_.D.forward(x, level); };
    const at::Tensor fake = official_.G.forward(z, level);
    if (parts[0] == "G_wgan") {
      const at::Tensor scores = D(fake);
      const at::Tensor loss = pggan::g_loss(scores);
      loss.backward();
      return {{{"loss_mean", loss}, {"loss_per_sample", -scores}}, official_gradients(official_.G)};
    }
    REQUIRE(parts[0] == "D_wgangp");
    pggan::LossOptions options;
    options.gp_size =
        parts[3] == "native" ? pggan::PenaltySize::kNative : pggan::PenaltySize::kFullres;
    const DiscriminatorLoss d =
        pggan::d_loss(D,
                      reference_["in/img" + parts[1]],
                      fake.detach(),
                      reference_["in/mix" + parts[1]].reshape({-1, 1, 1, 1}),
                      options,
                      16);
    d.loss.backward();
    return {{{"loss_mean", d.loss},
             {"real_scores", d.real_scores},
             {"fake_scores", d.fake_scores},
             {"interpolated_scores", d.interpolated_scores},
             {"interpolated_norms", d.interpolated_norms},
             {"epsilon_penalty", d.real_scores.square()}},
            official_gradients(official_.D)};
  }

 private:
  pggan::OfficialPair official_;
  CoveredFixture reference_;
};

}  // namespace

TEST_CASE("LossesPenaltiesAndGradientsMatchTheOfficialCode") {
  for (const char* name : {"pggan16", "pggan16_unfused"}) {
    Losses losses(name);
    CoveredFixture& reference = losses.reference();
    std::map<std::string, Computed> cache;
    for (const std::string& key : reference.keys()) {
      std::vector<std::string> parts = split(key, '/');
      if (parts[0] == "in") continue;
      CAPTURE(name, key);
      const size_t depth = parts[0] == "G_wgan" ? 3 : 4;
      const std::string where = join({parts.begin(), parts.begin() + static_cast<int>(depth)}, "/");
      if (cache.count(where) == 0) cache[where] = losses.at(parts);
      const std::string what = parts.at(depth);
      const std::string parameter =
          join({parts.begin() + static_cast<int>(depth) + 1, parts.end()}, "/");
      if (what == "grad") {
        const at::Tensor& gradient = cache[where].gradients.at(parameter);
        CHECK(error_in_tolerances(gradient, reference[key], 3e-3, 1e-6) < 1);
      } else if (what == "gradnorm") {
        const at::Tensor norm = cache[where].gradients.at(parameter).norm();
        CHECK(error_in_tolerances(norm, reference[key], 3e-3, 1e-6) < 1);
      } else {
        CHECK(scaled_error(cache[where].values.at(what).detach(), reference[key]) < 1e-4);
      }
    }
    CHECK(reference.unused() == std::vector<std::string>());
  }
}

TEST_CASE("ThePenaltyByFullSizePicturesIsTheOneTakenThroughTheirReduction") {
  pggan::OfficialPair official("pggan16");
  const Level level{8, 0.3};
  const auto D = [&](const at::Tensor& x) { return official.D.forward(x, level); };
  const auto reduced = [&](const at::Tensor& x) { return D(box_down(x)); };
  const at::Tensor real = torch::randn({8, 3, 8, 8}), fake = torch::randn({8, 3, 8, 8});
  const at::Tensor t = torch::rand({8, 1, 1, 1});
  pggan::LossOptions options;
  options.gp_size = pggan::PenaltySize::kFullres;
  const DiscriminatorLoss quick = pggan::d_loss(D, real, fake, t, options, 16);
  options.gp_size = pggan::PenaltySize::kNative;
  const DiscriminatorLoss exact =
      pggan::d_loss(reduced, nearest_up(real), nearest_up(fake), t, options, 16);
  CHECK(scaled_error(quick.interpolated_norms.detach(), exact.interpolated_norms.detach()) < 1e-5);
  CHECK(quick.loss.item<float>() == Approx(exact.loss.item<float>()).epsilon(1e-5));
}
