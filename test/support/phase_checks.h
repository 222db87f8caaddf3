// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "support/step_setup.h"

namespace gantrain {

// What one call of a phase came to.
struct PhaseResult {
  PhaseOutput out;
  // Of the phase's player by parameter, "main.0.weight"; zeros where the loss does not reach.
  std::map<std::string, at::Tensor> gradients;
};

// Runs a phase and the backward pass of its loss as it is, without Phase::gain. As in training,
// only the active parameters of the phase's player ask for gradients. No gradient is left behind.
PhaseResult run_with_gradients(Recipe& recipe, const Phase& phase, const PhaseInput& in);

// The phase of that name, and the tensor of that name.
const Phase& phase_of(const Recipe& recipe, const std::string& name);
const at::Tensor& value_of(const Statistics& statistics, const std::string& name);

// Hands the sums of a phase that saw the whole global batch back to the recipe.
void hand_back_sums(Recipe& recipe, const Statistics& sums);

// Lets the networks of a growing recipe stand at the stage of `pixels`, when its newest layers
// weigh `alpha`, and moves the recipe's numbers there.
void enter_level(Recipe& recipe, int64_t pixels, double alpha);

// Fails unless every phase, called twice with the same values, gives the same bits and leaves
// nothing behind (differences_when_run_twice), in float32 and as precision.amp says. Phases that
// can be handed something are called with it and without.
void check_phases_are_functions(const TrainingStep& step, const GlobalBatch& batch);

// Keeps what the phases of a training step's last iteration did. Goes into StepOnCpu as `doing`, by
// std::ref; `step` is set afterwards, before the first iteration.
struct StepWatch {
  using Tensors = std::map<std::string, at::Tensor>;  // of the phase's player, by parameter
  StepOnCpu* step = nullptr;
  std::map<std::string, Tensors> gradients = {};      // by phase: what its backward passes left
  std::map<std::string, Tensors> weights_after = {};  // by phase: after its optimizer's step

  void operator()(const std::string& doing);

 private:
  std::string phase_ = {};
};

// What the blocks computed in during a step's first iteration, on pictures of that shape; the
// gradients of its phases, so many, must be finite.
std::vector<Computed> computed_by(StepOnCpu& step, at::IntArrayRef pictures, size_t phases);

// L2 norm in float64.
double norm_of(const at::Tensor& tensor);

}  // namespace gantrain
