// SPDX-License-Identifier: Apache-2.0
// The recipe's own phases on the fixtures' networks: losses, logits, every parameter's gradient,
// the statistics that move, and three iterations of training.
#include "recipes/projected/recipe.h"

#include "augment/augment.h"
#include "recipes/projected/reference_step.h"
#include "support/covered_fixture.h"

using namespace gantrain;
using namespace gantrain::projected;

namespace {

constexpr double kGradientTolerance = 1e-4;  // scaled

Tensor logits_of(const Statistics& statistics, const char* whose, const Tensor& like) {
  return value_of(statistics, std::string("Loss/scores/") + whose).detach().reshape(like.sizes());
}

void check_loss(double loss, const Tensor& expected, bool of_G, double relative) {
  const double value = expected.item<double>();
  // G's loss is a small mean of large logits.
  CHECK(loss == Approx(value).epsilon(relative).margin(of_G ? 1e-5 : 0));
}

// What the fixture has of phase "Gmain" or "Dmain", or of one of them with the blur.
void check_phase(ReferenceStep& r, const std::string& in_fixture) {
  CAPTURE(r.name, in_fixture);
  const bool of_G = in_fixture[0] == 'G';
  Recipe& recipe = r.step->recipe();
  const Phase& phase = phase_of(recipe, of_G ? "G" : "D");
  const PhaseResult result =
      run_with_gradients(recipe, phase, whole_batch(recipe, phase, r.pictures));
  result.out.running.apply();
  const Tensors now = tensors_of(*phase.player.network);
  size_t compared = 0;
  for (const auto& [key, expected] : r.numbers.tensors) {
    if (!key.starts_with(in_fixture + "/")) continue;
    const std::string rest = key.substr(in_fixture.size() + 1);
    const std::string what = rest.substr(0, rest.find('/')), name = rest.substr(rest.find('/') + 1);
    CAPTURE(key);
    ++compared;
    if (what == "grad") {
      CHECK(scaled_error(result.gradients.at(name), expected) < kGradientTolerance);
    } else if (what == "gradnorm") {
      CHECK(norm_of(result.gradients.at(name)) ==
            Approx(expected.item<double>()).epsilon(kGradientTolerance).margin(1e-9));
    } else if (what == "after") {
      const Tensors D = tensors_of(*recipe.players()[1]->network);
      CHECK(scaled_error(D.at(name.substr(2)), expected) < 5e-5);
    } else if (name == "loss") {
      check_loss(result.out.loss.item<double>(), expected, of_G, 1e-4);
    } else {
      const char* whose = name == "fake_logits" ? "fake" : "real";
      CHECK(scaled_error(logits_of(result.out.statistics, whose, expected), expected) < 1e-4);
    }
  }
  CHECK(compared > 20);
}

void give_all(ReferenceStep& r) {
  r.draws.give("z", r["in/z"]);
  r.give_noise("in/noise_tile");
  r.give_augmentation("in/diffaug/fake", fakes_of(0));
  r.give_augmentation("in/diffaug/fake", fakes_of(1));
  r.give_augmentation("in/diffaug/real", reals_of(1));
}

}  // namespace

TEST_CASE("LossesGradientsAndStatisticsOfBothPhasesAreTheReferences") {
  for (const std::string name : {"big64", "lite32_c5"}) {
    for (const std::string phase : {"Gmain", "Dmain"}) {
      ReferenceStep r(name, "loss");
      give_all(r);
      for (DeviceNumber* number : r.step->recipe().numbers()) number->advance_to(1'000'000);
      check_phase(r, phase);
    }
  }
}

TEST_CASE("LossesThroughTheBlurAreTheReferences") {
  for (const std::string phase : {"Gmain_blur", "Dmain_blur"}) {
    ReferenceStep r("big64", "loss");
    give_all(r);
    for (DeviceNumber* number : r.step->recipe().numbers())
      number->advance_to(r.config["blur"]["cur_nimg"]);
    check_phase(r, phase);
  }
}

TEST_CASE("BlurFadesAsTheReferenceDoes") {
  CoveredFixture f("proj_schedules");
  Options o;
  o.blur_init_sigma = 2;
  o.blur_fade = {200'000};
  const Tensor images = f["blur/nimg"], sigmas = f["blur/f64_sigma"];
  for (int64_t i = 0; i < images.numel(); ++i)
    CHECK(blur_sigma(o, images[i].item<int64_t>()) ==
          Approx(sigmas[i].item<double>()).margin(1e-12));
  const Tensor x = as_pictures(f["blur/x_u8"]);
  for (const double sigma : {2.0, 1.2, 0.35, 0.3}) {
    const std::string name = fmt::format("{}", sigma == 2 ? "2.0" : fmt::format("{}", sigma));
    CAPTURE(sigma);
    const DeviceNumber moving([sigma](int64_t) { return sigma; }, at::TensorOptions(at::kDouble));
    CHECK(scaled_error(blurred(x, moving, 2), f["blur/y_sigma" + name]) < 1e-5);
    CHECK(scaled_error(blurred(x, sigma, 2), f["blur/y_sigma" + name]) < 1e-5);
  }
  // The taps show in the picture of a point.
  Tensor point = at::zeros({1, 1, 13, 13});
  point[0][0][6][6] = 1;
  for (const auto& [key, sigma] : {std::pair{"blur/taps0_sigma2.0", 2.0},
                                   {"blur/taps1_sigma1.2", 1.2},
                                   {"blur/taps2_sigma0.7", 0.7},
                                   {"blur/taps3_sigma0.35", 0.35}}) {
    const Tensor taps = f[key];
    const Tensor seen = blurred(point, sigma, 2)[0][0].sum(0);
    CHECK(scaled_error(seen.narrow(0, 6 - taps.numel() / 2, taps.numel()), taps) < 1e-5);
  }
  o.blur_fade = {1000};
  CHECK(blur_sigma(o, 0) == 0);
  // The average's half-life, as the recipe chooses it.
  const Tensor betas = f["ema/f64_batch_nimg_beta"];
  for (int64_t i = 0; i < betas.size(0); ++i) {
    const auto batch = static_cast<int64_t>(betas[i][0].item<double>());
    EmaOptions ema;
    ema.half_life = Kimg{batch * 10'000 / 32};
    const double beta = ema_beta(ema, static_cast<int64_t>(betas[i][1].item<double>()), batch);
    CHECK(beta == Approx(betas[i][2].item<double>()).epsilon(1e-6).margin(1e-7));
  }
  CHECK(f.unused().empty());
}

namespace {

// Norms of a network's parameters, in the fixture's order; `from`: of the way they have gone.
Tensor norms(const torch::nn::Module& net, const Json& order, const Tensors& from = {}) {
  const auto parameters = net.named_parameters();
  std::vector<double> all;
  for (const std::string name : order) {
    const Tensor now = parameters[name].detach();
    all.push_back(norm_of(from.empty() ? now : now - from.at(name)));
  }
  return torch::tensor(all, at::kDouble);
}

// Three iterations of the fixture NAME_train.
struct Training {
  explicit Training(const std::string& name) : r(name, "train") {
    for (const char* player : {"G", "D", "G_ema"}) {
      for (const auto& item : network(player).named_parameters())
        start[player][item.key()] = item.value().detach().clone();
    }
    r.before = [this](const std::string& doing) {
      if (!doing.ends_with(" forward")) return;
      const bool of_D = doing.starts_with("D");
      const std::string phase = of_D ? "Dmain" : "Gmain";
      r.draws.give("z", r["train/z"][r.pictures.iteration][of_D ? 1 : 0]);
      const std::string at = fmt::format("train/{}/", r.pictures.iteration);
      r.give_noise(at + phase + "_noise_tile");
      r.give_augmentation(at + "diffaug/" + phase + "/fake", fakes_of(of_D ? 1 : 0));
      if (of_D) r.give_augmentation(at + "diffaug/" + phase + "/real", reals_of(1));
    };
  }

  const torch::nn::Module& network(const std::string& player) {
    return player == "G_ema" ? *r.step->average().network()
                             : *r.step.player(player).player->network;
  }
  const Json& order(const std::string& player) const {
    return r.config["parameter_order"][player == "D" ? "D" : "G"];
  }

  void iterate(int64_t i) {
    r.pictures.iteration = i;
    r.pictures.images_seen = 4000 + 4 * i;
    const StepReport report = r.step.run(r.pictures);
    REQUIRE(report.phases.size() == 2);
    for (const PhaseReport& phase : report.phases) {
      const std::string player = phase.phase->name;
      const std::string at = fmt::format("train/{}/{}main/stat/", i, player);
      CAPTURE(at);
      for (const char* whose : {"fake", "real"}) {
        const std::string key = at + whose + "_logits";
        if (r.numbers.tensors.count(key) == 0) continue;
        CHECK(scaled_error(logits_of(phase.statistics, whose, r[key]), r[key]) < 1e-4);
      }
      const double peak = r[at + "fake_logits"].abs().max().item<double>();
      CHECK(phase.losses.at(0).item<double>() ==
            Approx(r[at + "loss"].item<double>()).margin(1e-4 * peak));
    }
    for (const std::string player : {"G", "D", "G_ema"}) {
      CAPTURE(i, player);
      const Tensor moved = norms(network(player), order(player), start.at(player));
      const std::string at = fmt::format("train/{}/", i);
      const Tensor& expected = r[at + "deltanorm/" + player];
      // The reference's weights are float32, rounded after each iteration.
      const Tensor rounding =
          norms(network(player), order(player)) * (static_cast<double>(i + 1) * std::exp2(-23));
      for (int64_t k = 0; k < moved.numel(); ++k) {
        CAPTURE(order(player)[static_cast<size_t>(k)]);
        CHECK(moved[k].item<double>() ==
              Approx(expected[k].item<double>()).epsilon(2e-3).margin(rounding[k].item<double>()));
      }
      CHECK(moved.norm().item<double>() ==
            Approx(r[at + "total_deltanorm/" + player].item<double>()).epsilon(1e-2).margin(1e-12));
    }
  }

  ReferenceStep r;
  std::map<std::string, Tensors> start;
};

}  // namespace

TEST_CASE("ThreeIterationsEndWhereTheReferenceEnds") {
  for (const std::string name : {"big64", "lite32_c5"}) {
    CAPTURE(name);
    Training training(name);
    ReferenceStep& r = training.r;
    for (int64_t i = 0; i < 3; ++i) training.iterate(i);
    for (const std::string player : {"G", "D", "G_ema"})
      CHECK(scaled_error(norms(training.network(player), training.order(player)),
                         r["train/2/paramnorm/" + player]) < 1e-4);
    for (const auto& [key, expected] : r.numbers.tensors) {
      if (!key.starts_with("train/after/")) continue;
      CAPTURE(key);
      const std::string player = key.substr(12, 1);
      CHECK(scaled_error(tensors_of(training.network(player)).at(key.substr(14)), expected) < 2e-2);
    }
    // G_ema has G's statistics as they are.
    const Tensors average = tensors_of(training.network("G_ema")),
                  G = tensors_of(training.network("G"));
    for (const char* buffer :
         {"synthesis.init.init.0.weight_u", "synthesis.init.init.1.running_var"})
      CHECK(torch::equal(average.at(buffer), G.at(buffer)));
  }
}
