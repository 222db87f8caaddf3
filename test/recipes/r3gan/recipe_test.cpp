// SPDX-License-Identifier: Apache-2.0
// The recipe's own phases on the fixtures' networks: losses, penalties, every parameter's gradient,
// and three iterations of training with all schedules.
#include "recipes/r3gan/recipe.h"

#include <cmath>

#include "recipes/r3gan/reference_step.h"
#include "recipes/reference_phases.h"

using namespace gantrain;
using namespace gantrain::r3gan;

namespace {

// Eq. 2 alone, which the fixtures call the loss of D.
double without_penalties(double loss,
                         const std::map<std::string, Tensor>& statistics,
                         double gamma) {
  for (const char* name : {"r1_penalty", "r2_penalty"}) {
    const auto at = statistics.find(name);
    if (at != statistics.end()) loss -= gamma / 2 * at->second.mean().item<double>();
  }
  return loss;
}

// What the fixture has of one loss, "G", "D", "G_pre" or "D_pre": values within 1e-4, whole
// gradients within 5e-3, norms within 3e-3 and 1e-9 (fixtures' tolerances).
void check_loss(const Networks& reference,
                const std::string& of,
                const Tensor& loss,
                const std::map<std::string, Tensor>& statistics,
                const std::map<std::string, Tensor>& gradients) {
  size_t compared = 0;
  for (const auto& [key, expected] : reference.reference.tensors) {
    const std::vector<std::string> parts = split(key, '/');
    if (parts[0] != of) continue;
    const std::string &kind = parts.at(1), &name = parts.at(2);
    CAPTURE(key);
    ++compared;
    if (kind == "grad") {
      CHECK(scaled_error(gradients.at(name), expected) < 5e-3);
    } else if (kind == "gradnorm") {
      CHECK(norm_of(gradients.at(name)) ==
            Approx(expected.item<double>()).epsilon(3e-3).margin(1e-9));
    } else if (name == "loss") {
      const double gamma =
          Json::parse(reference.reference.metadata.at("config"))["gamma"].get<double>();
      CHECK(without_penalties(loss.item<double>(), statistics, gamma) ==
            Approx(expected.mean().item<double>()).epsilon(1e-4));
    } else {
      CHECK(scaled_error(statistics.at(name).detach(), expected) < 1e-4);
    }
  }
  CHECK(compared >= gradients.size() + (of[0] == 'D' ? 4 : 2));
}

// The statistics of a phase by the fixtures' names.
std::map<std::string, Tensor> by_name(const Statistics& statistics, const std::string& player) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, value] : statistics) {
    if (name == "Loss/relativistic_logits/" + player) all["relativistic_logits"] = value;
    if (name.ends_with("_penalty")) all[name.substr(name.rfind('/') + 1)] = value;
  }
  return all;
}

}  // namespace

TEST_CASE("LossesAndGradientsOfBothPhasesAreTheReferences") {
  for (const std::string name : kReferences) {
    for (const std::string player : {"G", "D"}) {
      CAPTURE(name, player);
      ReferenceStep r(name);
      Recipe& recipe = r.step->recipe();
      const Phase& phase = phase_of(recipe, player);
      const PhaseResult result =
          run_with_gradients(recipe, phase, whole_batch(recipe, phase, r.pictures));
      check_loss(r.networks,
                 player,
                 result.out.loss,
                 by_name(result.out.statistics, player),
                 result.gradients);
    }
  }
}

// Lazy penalties are the other part of the same loss.
TEST_CASE("TheLossAndLazyPenaltiesAddUpToTheReference") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    ReferenceStep r(name, "loss", {{"r3gan.penalty_interval", 8}});
    Recipe& recipe = r.step->recipe();
    CHECK(recipe.phases().size() == 3);
    const auto run = [&](const char* which) {
      const Phase& phase = phase_of(recipe, which);
      return run_with_gradients(recipe, phase, whole_batch(recipe, phase, r.pictures));
    };
    const PhaseResult main = run("D"), penalties = run("Dreg");
    CHECK(phase_of(recipe, "Dreg").gain == 8);
    std::map<std::string, Tensor> gradients;
    for (const auto& [parameter, gradient] : main.gradients)
      gradients[parameter] = gradient + penalties.gradients.at(parameter);
    auto statistics = by_name(main.out.statistics, "D");
    statistics.merge(by_name(penalties.out.statistics, "D"));
    check_loss(r.networks, "D", main.out.loss + penalties.out.loss, statistics, gradients);
  }
}

// What D sees is 0.7 flip(x) + 0.1, which stands for an augmentation: penalties are gradients by
// the pictures before it.
TEST_CASE("LossesThroughAnAugmentationAreTheReferences") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    const Networks p(name, "loss");
    const TensorFile io = fixture("r3gan_" + name + "_io");
    const Tensor labels = Networks::labels(io);
    const Tensor real = Networks::as_pictures(io.tensors.at("in/real_u8"));
    const Discriminate seen = [&](const Tensor& x) {
      return p.D->forward(0.7 * x.flip({3}) + 0.1, labels);
    };
    const auto gradients = [](const Tensor& loss, const torch::nn::Module& net) {
      const auto parameters = net.named_parameters();
      const auto found = torch::autograd::grad({loss}, parameters.values());
      std::map<std::string, Tensor> all;
      for (size_t i = 0; i < found.size(); ++i) all[parameters.keys()[i]] = found[i];
      return all;
    };
    const Tensor fake = p.G->forward(io.tensors.at("in/z"), labels);
    const Pairing g = pairing_g({seen, seen}, {real, fake});
    check_loss(p,
               "G_pre",
               g.loss,
               {{"relativistic_logits", g.fake_scores - g.real_scores}},
               gradients(g.loss, *p.G));
    const Json config = Json::parse(p.reference.metadata.at("config"));
    const DeviceNumber gamma = config["gamma"].get<double>();
    const Pairing d = pairing_d({seen, seen}, {real, fake.detach()}, &gamma);
    check_loss(p,
               "D_pre",
               d.loss,
               {{"relativistic_logits", d.real_scores - d.fake_scores},
                {"r1_penalty", d.r1_penalty},
                {"r2_penalty", d.r2_penalty}},
               gradients(d.loss, *p.D));
  }
}

namespace {

// Three iterations of the fixture NAME_train, with schedules that are 20 images long.
struct Training {
  explicit Training(const std::string& name)
      : r(name, "train", schedules(name)), way(r.step, r.config["parameter_order"]) {
    // In the fixture each of the two phases has its own latents and real pictures. A step has real
    // pictures for both, so they are exchanged between the phases.
    r.before = [this](const std::string& doing) {
      if (!doing.ends_with(" forward")) return;
      const int64_t turn = doing.starts_with("G") ? 1 : 0;
      r.draws.give("z", r["train/z"][r.pictures.iteration][turn]);
      r.pictures.pictures.copy_(
          Networks::as_pictures(r["train/real_u8"][r.pictures.iteration][turn]));
    };
  }

  static std::map<std::string, Json> schedules(const std::string& name) {
    const Json config =
        Json::parse(fixture("r3gan_" + name + "_train").metadata.at("config"))["schedule"];
    const double length = config["total_nimg"].get<double>() / 1000;
    const auto ramp = [&](const char* key, double unit = 1) {
      return Json{{"from", config[key][0].get<double>() / unit},
                  {"to", config[key][1].get<double>() / unit},
                  {"kimg", length},
                  {"shape", "cosine"}};
    };
    return {{"G.adam.lr", ramp("lr")},
            {"D.adam.lr", ramp("lr")},
            {"G.adam.beta2", ramp("beta2")},
            {"D.adam.beta2", ramp("beta2")},
            {"r3gan.gamma", ramp("gamma")},
            {"ema.rampup", 0},
            {"ema.half_life", ramp("ema_nimg", 1000)}};
  }

  // Losses of both phases, then the way that all networks have gone.
  void iterate(int64_t i) {
    r.pictures.iteration = i;
    const StepReport report = r.step.run(r.pictures);
    REQUIRE(report.phases.size() == 2);
    for (const PhaseReport& phase : report.phases) {
      const std::string player = phase.phase->name;
      const std::string at = fmt::format("train/{}/{}/stat/", i, player);
      CAPTURE(at);
      const auto statistics = by_name(phase.statistics, player);
      const double gamma = r[fmt::format("train/{}/lr_beta2_gamma_emanimg", i)][2].item<double>();
      CHECK(without_penalties(phase.losses.at(0).item<double>(), statistics, gamma) ==
            Approx(r[at + "loss"].mean().item<double>()).epsilon(1e-3));
      CHECK(statistics.size() == (player == "D" ? 3 : 1));
      for (const auto& [name, value] : statistics) CHECK(scaled_error(value, r[at + name]) < 1e-3);
    }
    const Tensor numbers = r[fmt::format("train/{}/lr_beta2_gamma_emanimg", i)];
    const int64_t images = 4 * i;
    const AdamOptions& adam = r.step.player("G").player->options.adam;
    CHECK(adam.lr.at(images) == Approx(numbers[0].item<double>()));
    CHECK(adam.beta2.at(images) == Approx(numbers[1].item<double>()));
    way.check_moved(i, r.networks.reference);
  }

  ReferenceStep r;
  WayOfNetworks way;
};

}  // namespace

TEST_CASE("ThreeIterationsEndWhereTheReferenceEnds") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    Training training(name);
    ReferenceStep& r = training.r;
    for (int64_t i = 0; i < 3; ++i) training.iterate(i);
    for (const std::string player : {"G", "D", "G_ema"})
      CHECK(scaled_error(training.way.norms(player, false), r["train/2/paramnorm/" + player]) <
            1e-5);
    const Tensor labels =
        r.pictures.labels.defined() ? r.pictures.labels.narrow(0, 0, 1) : Tensor();
    const Tensor picture =
        r.step->average().images(r.io.tensors.at("in/z").narrow(0, 0, 1), labels);
    CHECK(scaled_error(picture, r["train/img_ema_sample0"]) < 1e-3);
  }
}
