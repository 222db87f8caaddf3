// SPDX-License-Identifier: Apache-2.0
#include "support/phase_checks.h"

#include <cmath>

#include "core/torch.h"
#include "support/catch.h"

namespace gantrain {

namespace {

// Only active parameters of these players ask for gradients; null is no player.
void ask_for_gradients(Recipe& recipe, const Player* trained, const Player* recorded = nullptr) {
  for (Player* player : recipe.players()) {
    for (auto& item : player->network->named_parameters()) {
      const bool active = !player->active || player->active(item.key());
      item.value().requires_grad_(active && (player == trained || player == recorded));
    }
  }
}

using Names = std::vector<std::string>;

void check_phases(Recipe& recipe, const GlobalBatch& batch, const ForwardPrecision& precision) {
  const std::vector<Phase>& phases = recipe.phases();
  Carry carried;
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase& phase = phases[i];
    CAPTURE(phase.name);
    PhaseInput in = whole_batch(recipe, phase, batch);
    ask_for_gradients(recipe, &phase.player);
    CHECK(differences_when_run_twice(recipe, phase, in, precision) == Names());
    if (phase.continues) {
      in.carried = carried;
      CHECK(differences_when_run_twice(recipe, phase, in, precision) == Names());
    }
    if (i + 1 == phases.size() || !phases[i + 1].continues) continue;
    in.continued = true;
    ask_for_gradients(recipe, &phase.player, &phases[i + 1].player);
    CHECK(differences_when_run_twice(recipe, phase, in, precision) == Names());
    const AutocastScope pass(precision, at::kCPU);
    carried = phase.run(in).carried;
  }
}

}  // namespace

PhaseResult run_with_gradients(Recipe& recipe, const Phase& phase, const PhaseInput& in) {
  ask_for_gradients(recipe, &phase.player);
  PhaseResult result{phase.run(in), {}};
  result.out.loss.backward();
  for (auto& item : phase.player.network->named_parameters()) {
    at::Tensor& p = item.value();
    result.gradients[item.key()] = p.grad().defined() ? p.grad() : torch::zeros_like(p.detach());
    p.mutable_grad() = at::Tensor();
  }
  return result;
}

const Phase& phase_of(const Recipe& recipe, const std::string& name) {
  for (const Phase& phase : recipe.phases()) {
    if (phase.name == name) return phase;
  }
  throw std::logic_error("there is no phase " + name);
}

const at::Tensor& value_of(const Statistics& statistics, const std::string& name) {
  for (const auto& [known, value] : statistics) {
    if (known == name) return value;
  }
  throw std::logic_error("there is no statistic " + name);
}

void hand_back_sums(Recipe& recipe, const Statistics& sums) {
  const torch::NoGradGuard no_grad;
  for (const AllReducedSum& all_reduced : recipe.sums()) {
    for (const auto& [name, sum] : sums) {
      if (name == all_reduced.name) all_reduced.on_reduced(sum.detach());
    }
  }
}

void enter_level(Recipe& recipe, int64_t pixels, double alpha) {
  for (const Stage& stage : recipe.schedule().stages()) {
    if (stage.resolution != pixels || stage.fading != (alpha < 1)) continue;
    recipe.enter(stage);
    const double images = stage.fading ? alpha * static_cast<double>(stage.length) : 0;
    for (DeviceNumber* number : recipe.numbers())
      number->advance_to(stage.first + std::llround(images));
    return;
  }
  throw std::logic_error("the schedule has no such stage");
}

void check_phases_are_functions(const TrainingStep& step, const GlobalBatch& batch) {
  check_phases(step.recipe(), batch, {});
  if (step.precision().autocast_type) check_phases(step.recipe(), batch, step.precision());
}

// Told "D forward", "D backward", "D step", ..., and "shared statistics" after the last phase.
void StepWatch::operator()(const std::string& doing) {
  const size_t space = doing.rfind(' ');
  const std::string name = doing.substr(0, space);
  if (!phase_.empty() && name != phase_) {
    weights_after[phase_].clear();
    const Player& player = phase_of((*step)->recipe(), phase_).player;
    for (const auto& item : player.network->named_parameters())
      weights_after[phase_][item.key()] = item.value().detach().clone();
  }
  phase_ = name == "shared" ? "" : name;
  if (doing.substr(space + 1) != "step") return;
  gradients[name].clear();
  for (const auto& item : phase_of((*step)->recipe(), name).player.network->named_parameters()) {
    const at::Tensor& gradient = item.value().grad();
    if (gradient.defined()) gradients[name][item.key()] = gradient.clone();
  }
}

std::vector<Computed> computed_by(StepOnCpu& step, at::IntArrayRef pictures, size_t phases) {
  std::vector<Computed> computed;
  step->note_computed_into(&computed);
  const at::Tensor numbers = torch::arange(c10::multiply_integers(pictures), at::kFloat);
  const StepReport report = step.run(torch::sin(numbers * 0.37).reshape(pictures), 0);
  CHECK(report.phases.size() == phases);
  for (const PhaseReport& phase : report.phases) CHECK(phase.verdict.finite == true);
  return computed;
}

double norm_of(const at::Tensor& tensor) {
  return tensor.detach().to(at::kDouble).norm().item<double>();
}

}  // namespace gantrain
