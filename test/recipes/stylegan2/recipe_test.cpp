// SPDX-License-Identifier: Apache-2.0
// The recipe's own phases on the fixtures' networks: losses, penalties, every parameter's gradient,
// and what they move beside the weights.
#include "recipes/stylegan2/recipe.h"

#include <cmath>
#include <optional>

#include "recipes/reference_phases.h"
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/reference_step.h"

using namespace gantrain;
using stylegan2::ReferenceStep;

namespace {

// Runs the phase and compares all that the fixture has of it.
PhaseResult check_phase(ReferenceStep& r, const std::string& name) {
  return gantrain::check_phase(
      r.step->recipe(), name, r.pictures, r.reference, name, {2e-3, 2e-3, 1e-7});
}

}  // namespace

TEST_CASE("TheGeneratorsPhaseMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    ReferenceStep r(name);
    const PhaseResult result = check_phase(r, "Gmain");
    hand_back_sums(r.step->recipe(), result.out.sums);
    const torch::nn::Module& G = *r.step->recipe().players()[0]->network;
    CHECK(scaled_error(G.named_buffers()["mapping.w_avg"], r["Gmain/w_avg_after"]) < 5e-5);
  }
}

TEST_CASE("TheDiscriminatorsPhaseMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    ReferenceStep r(name);
    check_phase(r, "Dmain");
  }
}

// Mescheder et al. 2018, eq. 9: gamma/2 |grad D(x)|^2.
TEST_CASE("TheR1PhaseMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    ReferenceStep r(name);
    check_phase(r, "Dreg");
  }
}

// Karras et al. 2020a, eq. 4: (|J_w^T y| - a)^2, a being the running mean, moved first.
TEST_CASE("ThePathLengthPhaseMatchesTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    ReferenceStep r(name);
    at::Tensor mean = value_of(r.step->recipe().state(), "pl_mean");
    mean.copy_(r["in/pl_mean"]);
    const PhaseResult result = check_phase(r, "Greg");
    CHECK(torch::equal(mean, r["in/pl_mean"]));  // the sums move it, at the iteration's end
    hand_back_sums(r.step->recipe(), result.out.sums);
    CHECK(mean.item<double>() == Approx(r["Greg/pl_mean_after"].item<double>()).epsilon(1e-4));
  }
}

TEST_CASE("PhasesOfStyleGan2AreFunctions") {
  const at::Tensor real = torch::linspace(-1, 1, 4 * 3 * 8 * 8).reshape({4, 3, 8, 8});
  const at::Tensor labels = torch::arange(4).remainder(2);
  for (const char* augmentation : {"none", "ada", "fixed"}) {
    for (const bool reads_wait : {false, true}) {
      CAPTURE(augmentation, reads_wait);
      std::optional<AssumeReadsWait> assumed;
      if (reads_wait) assumed.emplace();
      StepOnCpu step(stylegan2::row(),
                     step_config(stylegan2::facts(),
                                 stylegan2::tiny_run({{"train.batch", 4},
                                                      {"ada.mode", augmentation},
                                                      {"ada.p", 0.5},
                                                      {"precision.amp", "bf16"}})),
                     {},
                     {3, 5});
      check_phases_are_functions(*step, {real, labels, 0});
    }
  }
}

namespace {

// Norms of D's parameters after a phase and of the way they have gone: fixtures' tolerances.
void check_moved(const ReferenceStep& r,
                 const std::string& at,
                 const StepWatch::Tensors& start,
                 const StepWatch::Tensors& now) {
  double total = 0;
  REQUIRE(now.size() == start.size());
  for (const auto& [name, tensor] : now) {
    CAPTURE(at, name);
    const double moved = norm_of(tensor - start.at(name));
    total += moved * moved;
    CHECK(moved == Approx(r[at + "/deltanorm/" + name].item<double>()).epsilon(5e-3).margin(1e-12));
    CHECK(norm_of(tensor) ==
          Approx(r[at + "/paramnorm/" + name].item<double>()).epsilon(1e-5).margin(1e-12));
  }
  CAPTURE(at);
  CHECK(std::sqrt(total) == Approx(r[at + "/total_deltanorm"].item<double>()).epsilon(1e-4));
}

const PhaseReport& report_of(const StepReport& report, const std::string& name) {
  for (const PhaseReport& phase : report.phases) {
    if (phase.phase->name == name) return phase;
  }
  throw std::logic_error("phase " + name + " was not due");
}

// Training in which G stays as it is. The fixture's rates and betas are those after the correction
// for lazy regularisation; a run is given those before it.
struct Training {
  ReferenceStep r;
  StepWatch::Tensors start;  // D's weights

  explicit Training(const std::string& name)
      : r(name, {{"G.adam.lr", 0}, {"D.adam.lr", 0.002}, {"stylegan2.d_interval", 16}}) {
    const Player& D = *r.step.player("D").player;
    const Json adam = r.config["adam"];
    CHECK(D.step_share * D.options.adam.lr.at(0) == Approx(adam["lr"].get<double>()));
    CHECK(std::pow(D.options.adam.beta2.at(0), D.step_share) ==
          Approx(adam["betas"][1].get<double>()));
    CHECK(phase_of(r.step->recipe(), "Dreg").gain == adam["dreg_gain"].get<double>());
    for (const auto& item : D.network->named_parameters())
      start[item.key()] = item.value().detach().clone();
  }

  void iterate(int64_t iteration, const std::string& main, const std::string& penalty = "") {
    r.pictures.iteration = iteration;
    const StepReport report = r.step.run(r.pictures);
    CHECK(report.phases.size() == (penalty.empty() ? 2 : 4));
    const at::Tensor expected = r[main + "/loss"];
    CHECK(report_of(report, "Dmain").losses.at(0).item<double>() ==
          Approx(expected.item<double>()).epsilon(1e-4));
    check_moved(r, main, start, r.watch.weights_after.at("Dmain"));
    if (penalty.empty()) return;
    const at::Tensor norms = value_of(report_of(report, "Dreg").statistics, "Loss/r1_penalty");
    CHECK(scaled_error(norms, r[penalty + "/r1_penalty"]) < 1e-4);
    check_moved(r, penalty, start, r.watch.weights_after.at("Dreg"));
  }
};

}  // namespace

TEST_CASE("ThreeAdamStepsOfDEndWhereTheReferenceEnds") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Training training(name);
    // No penalty is due in these iterations.
    training.iterate(1, "adamA/0");
    training.iterate(2, "adamA/1");
    training.iterate(3, "adamA/2");
  }
}

TEST_CASE("LossAndLazyR1InTurnEndWhereTheReferenceEnds") {
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Training training(name);
    training.iterate(0, "adamB/0", "adamB/1");
    training.iterate(16, "adamB/2", "adamB/3");
  }
}
