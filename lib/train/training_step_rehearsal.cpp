// SPDX-License-Identifier: Apache-2.0
// Phases tried out without training, to see what they compute in, how long they take, or how much
// memory they need.
#include <utility>

#include "core/torch.h"
#include "train/training_step.h"

namespace gantrain {

// The samples of `batch` as one rank with one micro-batch has them.
PhaseInput TrainingStep::rehearsal_input(const Phase& phase, const RankBatch& batch) const {
  PhaseInput input;
  input.real = batch.real;
  input.labels = batch.labels;
  input.key = key_.of_phase(&phase - recipe_->phases().data());
  input.samples = {0, 1, batch.real.size(0)};
  return input;
}

// Computes the gradients of the phase's player and lets go of them.
void TrainingStep::drop_gradients(const Phase& phase, const PhaseOutput& out) {
  std::vector<at::Tensor> active;
  for (const auto& [name, parameter] : state_of(phase.player).active) active.push_back(parameter);
  torch::autograd::grad({out.loss},
                        active,
                        /*grad_outputs=*/{},
                        /*retain_graph=*/false,
                        /*create_graph=*/false,
                        /*allow_unused=*/true);
}

void TrainingStep::thaw_all() {
  for (PlayerState& state : players_) {
    for (auto& [name, parameter] : state.parameters) parameter.requires_grad_(true);
  }
}

void TrainingStep::rehearse(const RankBatch& batch, bool gradients, const AroundPhase& around) {
  set_iteration_(key_, batch.iteration);
  for (DeviceNumber* number : recipe_->numbers()) number->move_to(batch.images_seen);
  for (const Phase& phase : recipe_->phases()) {
    if (phase.role != Role::kMain) continue;
    freeze_all_but(phase, nullptr);
    around(phase, [&] {
      const PhaseOutput out = run_micro_batch(phase, rehearsal_input(phase, batch));
      if (gradients) drop_gradients(phase, out);
    });
  }
  thaw_all();
}

// A graph that is handed over stays in memory through the phases between, as with one micro-batch.
void TrainingStep::rehearse_all(const RankBatch& batch) {
  set_iteration_(key_, batch.iteration);
  for (DeviceNumber* number : recipe_->numbers()) number->move_to(batch.images_seen);
  Carry carried;
  const Player* receiver = nullptr;  // of what is carried
  for (const Phase& phase : recipe_->phases()) {
    setup_.doing(phase.name + " rehearsal");
    freeze_all_but(phase, phase.hands_to);
    PhaseInput input = rehearsal_input(phase, batch);
    input.hands_over = phase.hands_to != nullptr;
    if (receiver == &phase.player) {
      input.carried = std::exchange(carried, {});
      receiver = nullptr;
    }
    PhaseOutput out = run_micro_batch(phase, input);
    drop_gradients(phase, out);
    if (phase.hands_to == nullptr) continue;
    carried = std::move(out.carried);
    receiver = phase.hands_to;
  }
  thaw_all();
}

}  // namespace gantrain
