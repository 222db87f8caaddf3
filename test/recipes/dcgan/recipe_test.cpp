// SPDX-License-Identifier: Apache-2.0
#include "recipes/dcgan/recipe.h"

#include "recipes/dcgan/options.h"
#include "support/catch.h"
#include "support/given_draws.h"
#include "support/phase_checks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of 16 pixels, batch 4.
Changes tiny(Changes changes = {}) {
  changes.merge(Changes{{"data.resolution", 16},
                        {"train.batch", 4},
                        {"train.seed", 3},
                        {"dcgan.channels", 16},
                        {"dcgan.d_channels", 4}});
  return changes;
}

struct Made : StepOnCpu {
  explicit Made(const Changes& changes = {})
      : StepOnCpu(dcgan::row(), step_config(dcgan::facts(), tiny(changes))) {}

  Recipe& recipe() { return (**this).recipe(); }
  const Phase& phase(size_t i) { return recipe().phases().at(i); }
  Player& G() { return *recipe().players()[0]; }
  Player& D() { return *recipe().players()[1]; }
  PhaseOutput call(size_t i, const PhaseInput& in) { return phase(i).run(in); }
};

GlobalBatch batch(int64_t iteration = 0) {
  return {torch::linspace(-1, 1, 4 * 3 * 16 * 16).reshape({4, 3, 16, 16}), {}, iteration};
}

PhaseInput input(Made& made, size_t phase, int64_t iteration = 0) {
  return whole_batch(made.recipe(), made.phase(phase), batch(iteration));
}

int64_t batches_of(const Player& player, const char* norm) {
  return player.network->named_buffers()[std::string(norm) + ".num_batches_tracked"]
      .item<int64_t>();
}

// D's phase, whose pictures G's phase goes on with.
PhaseOutput judged(Made& made, int64_t iteration = 0) {
  PhaseInput in = input(made, 0, iteration);
  in.continued = true;
  return made.call(0, in);
}

PhaseInput with(PhaseInput in, const Carry& carried) {
  in.carried = carried;
  return in;
}

// The pair of fixtures/dcgan in training: ngf = ndf = 8, 64 pixels, batch 4, latents and pictures
// of the fixture.
struct Reference {
  TensorFile file = fixture("dcgan");
  StepWatch watch;
  StepOnCpu step{dcgan::row(),
                 step_config(dcgan::facts(),
                             {{"data.resolution", 64},
                              {"train.batch", 4},
                              {"dcgan.channels", 64},
                              {"dcgan.d_channels", 8}}),
                 {},
                 {},
                 std::ref(watch)};
  GivenDraws draws;
  std::map<std::string, at::Tensor> start;  // weights, "G/main.0.weight"

  Reference() {
    watch.step = &step;
    const TensorFile parameters = fixture("dcgan_params");
    for (const Player* player : step->recipe().players()) {
      load_into(*player->network, parameters.tensors, "dcgan_params", player->name + "/");
      for (const auto& item : player->network->named_parameters())
        start[player->name + "/" + item.key()] = item.value().detach().clone();
    }
    step->begin();
  }

  const at::Tensor& operator[](const std::string& name) const { return file.tensors.at(name); }

  // Compares the fixture's tensor, where it has one.
  template <class Compare>
  void compare(const std::string& key, Compare&& compare_with) const {
    const auto at = file.tensors.find(key);
    if (at == file.tensors.end()) return;
    CAPTURE(key);
    compare_with(at->second);
  }

  // Whatever the fixture has of one player after a step: gradients, and where its tensors are.
  void check_player(const std::string& at, const Player& player) {
    for (const auto& item : player.network->named_parameters()) {
      const std::string name = player.name + "/" + item.key();
      const at::Tensor& gradient = watch.gradients.at(player.name).at(item.key());
      const at::Tensor now = item.value().detach();
      const auto norm = [](const at::Tensor& t, double tolerance) {
        return [&t, tolerance](const at::Tensor& expected) {
          CHECK(norm_of(t) == Approx(expected.item<double>()).epsilon(tolerance).margin(1e-9));
        };
      };
      const at::Tensor moved = now - start.at(name);
      compare(at + "gradnorm/" + name, norm(gradient, 1e-4));
      compare(at + "deltanorm/" + name, norm(moved, 2e-3));
      compare(at + "paramnorm/" + name, norm(now, 1e-5));
      compare(at + "grad/" + name,
              [&](const at::Tensor& expected) { CHECK(scaled_error(gradient, expected) < 2e-3); });
    }
    for (const auto& item : player.network->named_buffers()) {
      compare(at + "after/" + player.name + "/" + item.key(), [&](const at::Tensor& expected) {
        CHECK(scaled_error(item.value(), expected) < 2e-4);
      });
    }
  }
};

}  // namespace

TEST_CASE("ThreeStepsOfTrainingMatchTheReference") {
  Reference r;
  for (int i = 0; i < 3; ++i) {
    const std::string at = "step" + std::to_string(i) + "/";
    CAPTURE(at);
    r.draws.give("z", r["in/zs"][i]);
    const StepReport report = r.step.run(r["in/real"][i], i);
    REQUIRE(report.phases.size() == 2);
    const Statistics& seen = report.phases[0].statistics;
    CHECK(scaled_error(value_of(seen, "Loss/scores/real").sigmoid(), r[at + "D_real"]) < 1e-5);
    CHECK(scaled_error(value_of(seen, "Loss/scores/fake").sigmoid(), r[at + "D_fake"]) < 1e-5);
    CHECK(scaled_error(report.phases[0].losses.at(0), r[at + "loss_D"]) < 1e-5);
    CHECK(scaled_error(report.phases[1].losses.at(0), r[at + "loss_G"]) < 1e-5);
    for (const Player* player : r.step->recipe().players()) r.check_player(at, *player);
  }
}

TEST_CASE("BothPhasesShareTheLatentsAndIterationsDoNot") {
  Made made;
  const PhaseOutput d = judged(made);
  const at::Tensor made_again = made.call(1, input(made, 1)).loss;
  CHECK(torch::equal(made.call(1, with(input(made, 1), d.carried)).loss, made_again));
  CHECK_FALSE(torch::allclose(value_of(judged(made, 1).statistics, "Loss/scores/fake"),
                              value_of(d.statistics, "Loss/scores/fake")));
}

TEST_CASE("OnlyTheGeneratorsPhaseMovesItsStatistics") {
  Made made;
  made.call(0, input(made, 0)).running.apply();
  CHECK(batches_of(made.G(), "main.1") == 0);
  CHECK(batches_of(made.D(), "main.3") == 2);  // real, fake
  made.call(1, input(made, 1)).running.apply();
  CHECK(batches_of(made.G(), "main.1") == 1);
  CHECK(batches_of(made.D(), "main.3") == 3);
}

TEST_CASE("ImprovingThePicturesThatWereJudgedIsMakingThemAgain") {
  for (const char* loss : {"dcgan", "wgan-gp"}) {
    Made twice(Changes{{"dcgan.loss", loss}}), once(Changes{{"dcgan.loss", loss}});
    twice.call(0, input(twice, 0)).running.apply();
    const PhaseResult again = run_with_gradients(twice.recipe(), twice.phase(1), input(twice, 1));
    const PhaseOutput d = judged(once);
    d.running.apply();
    const PhaseResult taken =
        run_with_gradients(once.recipe(), once.phase(1), with(input(once, 1), d.carried));
    CHECK(torch::equal(taken.out.loss, again.out.loss));
    for (const auto& [name, gradient] : again.gradients) {
      CAPTURE(loss, name);
      CHECK(torch::equal(taken.gradients.at(name), gradient));
    }
    again.out.running.apply();
    taken.out.running.apply();
    for (const auto& item : twice.G().network->named_buffers()) {
      CAPTURE(loss, item.key());
      CHECK(torch::equal(once.G().network->named_buffers()[item.key()], item.value()));
    }
  }
}

// The step hands pictures over wherever it can, and that changes nothing.
TEST_CASE("PicturesAreHandedOverInTrainingAndThatChangesNoBit") {
  const auto train = [](bool hands_over, const Changes& changes) {
    Made made(changes);
    auto& phases = const_cast<std::vector<Phase>&>(made.recipe().phases());
    if (!hands_over) phases[1].continues = false;
    std::vector<bool> taken;
    phases[1].loss = [&taken, loss = phases[1].loss](const PhaseInput& in) {
      taken.push_back(in.carried.tensors.count("pictures") == 1);
      return loss(in);
    };
    for (int64_t i = 0; i < 4; ++i) made.run(batch(i));
    return std::pair{taken, sha256_of(made.state())};
  };
  using Taken = std::vector<bool>;
  for (const char* mode : {"wrapper", "dynamic"}) {
    const auto [taken, weights] = train(true, {{"dist.ddp_mode", mode}});
    const auto [made_again, expected] = train(false, {{"dist.ddp_mode", mode}});
    CHECK(taken == Taken{true, true, true, true});
    CHECK(made_again == Taken{false, false, false, false});
    CHECK(weights == expected);
  }
  CHECK(train(true, {{"D.steps", 2}}).first == Taken{true, true});
  // The graphs of all micro-batches would have to be kept.
  CHECK(train(true, {{"D.accumulate", 2}}).first == Taken{false, false, false, false});
}

TEST_CASE("WhatIsHandedOverKeepsTheWeightsThatMadeIt") {
  Made made(Changes{{"dcgan.norm", "none"}});
  const PhaseOutput d = judged(made);
  const PhaseInput taken = with(input(made, 1), d.carried);
  const at::Tensor before = made.call(1, taken).loss;
  {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& p : made.G().network->parameters()) p.mul_(2);
  }
  CHECK(torch::equal(made.call(1, taken).loss, before));
  CHECK_FALSE(torch::equal(made.call(1, input(made, 1)).loss, before));
}

TEST_CASE("OtherSamplesHaveOtherPictures") {
  Made made(Changes{{"dcgan.norm", "none"}});
  PhaseInput other = input(made, 1);
  other.samples.first = 4;
  CHECK_FALSE(torch::equal(made.call(1, other).loss, made.call(1, input(made, 1)).loss));
}

TEST_CASE("TheDiscriminatorsPhaseGivesTheGeneratorNoGradient") {
  for (const char* loss : {"dcgan", "lsgan", "wgan-gp"}) {
    Made made(Changes{{"dcgan.loss", loss}, {"dcgan.norm", "none"}});
    const PhaseOutput out = judged(made);
    out.loss.backward();
    for (const at::Tensor& p : made.G().network->parameters()) CHECK_FALSE(p.grad().defined());
    for (const at::Tensor& p : made.D().network->parameters()) CHECK(p.grad().defined());
    const auto penalties =
        std::count_if(out.statistics.begin(), out.statistics.end(), [](const auto& item) {
          return item.first == "Loss/gradient_penalty";
        });
    CHECK(penalties == (std::string(loss) == "wgan-gp" ? 1 : 0));
  }
}

TEST_CASE("TheGeneratorStepsOnceForSeveralStepsOfTheDiscriminator") {
  Made made(Changes{{"D.steps", 5}});
  CHECK(made.phase(0).cadence.interval == 1);
  CHECK(made.phase(1).cadence.interval == 5);
  CHECK(made.phase(1).cadence.first == 4);  // Gulrajani et al. 2017, alg. 1: the critic first
}

TEST_CASE("EachOfSeveralGeneratorStepsHasItsOwnLatents") {
  Made made(Changes{{"G.steps", 2}, {"dcgan.norm", "none"}});
  REQUIRE(made.recipe().phases().size() == 3);
  CHECK_FALSE(torch::equal(made.call(1, input(made, 1)).loss, made.call(2, input(made, 2)).loss));
}

TEST_CASE("PhasesOfDcganAreFunctions") {
  for (const char* loss : {"dcgan", "lsgan", "wgan-gp"}) {
    CAPTURE(loss);
    Made made(Changes{{"dcgan.loss", loss}, {"G.steps", 2}, {"precision.amp", "bf16"}});
    check_phases_are_functions(*made, batch());
  }
}

TEST_CASE("ATrainedGeneratorGivesThePicturesOfItsNetwork") {
  Made made;
  auto tensors = tensors_of(*made.G().network);
  CHECK(dcgan::row().recognises(tensors));
  CHECK_FALSE(dcgan::row().recognises({}));
  const auto generator = dcgan::row().make_generator({}, tensors, "test");
  CHECK(generator->z_dim() == 100);
  load_into(*generator->network(), tensors, "test");
  const at::Tensor images = generator->images(torch::randn({2, 100}), {});
  CHECK(images.sizes() == at::IntArrayRef({2, 3, 16, 16}));
  CHECK_FALSE(images.requires_grad());
  CHECK(made.recipe().model()["recipe"] == "dcgan");
}
