// SPDX-License-Identifier: Apache-2.0
// The recipe's own phases on the fixtures' networks: losses, penalties, every parameter's gradient,
// and what they move beside the weights.
#include "recipes/stylegan2/recipe.h"

#include <algorithm>
#include <optional>

#include "recipes/stylegan2/reference_step.h"

using namespace gantrain;
using stylegan2::ReferenceStep;

namespace {

// One tensor "PHASE/KIND/NAME" of the fixture. Norms within 2e-3 and 1e-7, whole gradients within
// 2e-3, values within 1e-4: fixtures' tolerances.
void check_entry(const std::vector<std::string>& key,
                 const PhaseResult& result,
                 const at::Tensor& expected) {
  const std::string &kind = key.at(1), &name = key.at(2);
  if (kind == "gradnorm") {
    CHECK(norm_of(result.gradients.at(name)) ==
          Approx(expected.item<double>()).epsilon(2e-3).margin(1e-7));
  } else if (kind == "grad") {
    CHECK(scaled_error(result.gradients.at(name), expected) < 2e-3);
  } else if (name.ends_with(".loss") || name.ends_with(".reg")) {  // of each sample
    CHECK(result.out.loss.item<double>() == Approx(expected.mean().item<double>()).epsilon(1e-4));
  } else {
    REQUIRE(kind == "stat");
    std::string statistic = name;
    std::replace(statistic.begin(), statistic.end(), '.', '/');
    const at::Tensor value = value_of(result.out.statistics, statistic).detach();
    CHECK(scaled_error(value.reshape(expected.sizes()), expected) < 1e-4);
  }
}

// Runs the phase and compares all that the fixture has of it.
PhaseResult check_phase(ReferenceStep& r, const std::string& name) {
  Recipe& recipe = r.step->recipe();
  const Phase& phase = phase_of(recipe, name);
  PhaseResult result = run_with_gradients(recipe, phase, whole_batch(recipe, phase, r.pictures));
  int compared = 0;
  for (const auto& [key, expected] : r.reference.tensors) {
    const std::vector<std::string> parts = split(key, '/');
    if (parts[0] != name || parts.size() != 3) continue;
    CAPTURE(key);
    check_entry(parts, result, expected);
    ++compared;
  }
  CHECK(compared > 20);
  return result;
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
                                 {{"data.resolution", 8},
                                  {"train.batch", 4},
                                  {"stylegan2.z_dim", 8},
                                  {"stylegan2.w_dim", 8},
                                  {"stylegan2.map_depth", 2},
                                  {"stylegan2.channel_base", 64},
                                  {"stylegan2.channel_max", 8},
                                  {"stylegan2.gamma", 1},
                                  {"ada.mode", augmentation},
                                  {"ada.p", 0.5},
                                  {"precision.amp", "bf16"}}),
                     {},
                     {3, 5});
      check_phases_are_functions(*step, {real, labels, 0});
    }
  }
}
