// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/losses.h"

#include <catch2/catch.hpp>

#include "covered_fixture.h"
#include "official.h"
#include "recipes/stylegan1/styles.h"
#include "util/text.h"

using namespace gantrain;
using stylegan1::Loss;

namespace {

struct Computed {
  TensorMap values;     // by their names in the fixture
  TensorMap gradients;  // by official names, in official layouts; zeros where there is none
};

TensorMap official_gradients(const torch::nn::Module& net) {
  TensorMap all;
  for (const auto& item : net.named_parameters()) {
    const at::Tensor& p = item.value();
    all[item.key()] = p.grad().defined() ? p.grad() : torch::zeros_like(p);
  }
  return to_official(all, "", "", stylegan1::layouts(std::nullopt));
}

stylegan1::LossOptions options_of(const std::string& kind) {
  stylegan1::LossOptions o;
  if (kind == "D_logistic_r1r2") {
    o.r1_gamma = 4;
    o.r2_gamma = 2;
  } else if (kind == "D_wgan_gp") {
    o.kind = Loss::kWganGp;
  } else if (kind == "D_hinge") {
    o.kind = Loss::kHinge;
  } else if (kind == "G_logistic_saturating") {
    o.kind = Loss::kSaturating;
  } else {
    REQUIRE((kind == "D_logistic_r1" || kind == "G_logistic_nonsaturating"));
  }
  return o;
}

// A loss at "KIND/r/aALPHA[/MODE]" of the fixture.
class Losses {
 public:
  CoveredFixture reference{"stylegan1_16_loss"};

  Computed at(const std::vector<std::string>& parts) {
    const Level level{parse_int(parts[1]).value(), parse_double(parts[2].substr(1)).value()};
    official_.G.zero_grad(/*set_to_none=*/true);
    official_.D.zero_grad(/*set_to_none=*/true);
    stylegan1::LossOptions options = options_of(parts[0]);
    const auto D = [&](const at::Tensor& x) { return official_.D.forward(x, level); };
    const at::Tensor w = official_.G.mapping->forward(reference["in/z" + parts[1]]);
    const at::Tensor fake = official_.images(stylegan1::broadcast(w, 6), level);
    if (starts_with(parts[0], "G_")) {
      const at::Tensor scores = D(fake);
      const at::Tensor loss = stylegan1::g_loss(scores, options);
      loss.backward();
      const bool saturating = options.kind == Loss::kSaturating;
      const at::Tensor each = saturating ? -at::softplus(scores) : at::softplus(-scores);
      return {{{"loss_mean", loss}, {"loss_per_sample", each}}, official_gradients(official_.G)};
    }
    if (parts[3] == "fullres") options.penalty_size = stylegan1::PenaltySize::kFullres;
    const at::Tensor t = reference["in/mix" + parts[1]].reshape({-1, 1, 1, 1});
    const at::Tensor& real = reference["in/img" + parts[1]];
    const DiscriminatorLoss d = stylegan1::d_loss(D, real, fake.detach(), t, options, 16);
    d.loss.backward();
    return {{{"loss_mean", d.loss},
             {"scores.real", d.real_scores},
             {"scores.fake", d.fake_scores},
             {"scores.mixed", d.interpolated_scores},
             {"interpolated_norms", d.interpolated_norms},
             {"epsilon_penalty", d.real_scores.square()},
             {"r1_penalty", d.r1_penalty},
             {"r2_penalty", d.r2_penalty}},
            official_gradients(official_.D)};
  }

 private:
  stylegan1::OfficialPair official_;
};

}  // namespace

TEST_CASE("LossesPenaltiesAndGradientsMatchTheOfficialCode") {
  Losses losses;
  CoveredFixture& reference = losses.reference;
  std::map<std::string, Computed> cache;
  for (const std::string& key : reference.keys()) {
    std::vector<std::string> parts = split(key, '/');
    if (parts[0] == "in") continue;
    CAPTURE(key);
    const int depth = starts_with(parts[0], "G_") ? 3 : 4;
    const std::string where = join({parts.begin(), parts.begin() + depth}, "/");
    if (cache.count(where) == 0) cache[where] = losses.at(parts);
    const std::string what = parts.at(static_cast<size_t>(depth));
    const std::string parameter = join({parts.begin() + depth + 1, parts.end()}, "/");
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

TEST_CASE("HingeAndWassersteinShareTheGeneratorsLoss") {
  const at::Tensor scores = torch::randn({8});
  stylegan1::LossOptions o;
  for (const Loss kind : {Loss::kHinge, Loss::kWganGp}) {
    o.kind = kind;
    CHECK(stylegan1::g_loss(scores, o).item<float>() == Approx(-scores.mean().item<float>()));
  }
}
