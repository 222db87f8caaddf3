// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/forward_precision.h"
#include "train/players.h"

namespace gantrain {

// One rank's share of a global batch: samples rank, rank + world, ...
struct RankBatch {
  at::Tensor real;    // [batch / world, C, R, R] in [-1, 1]
  at::Tensor labels;  // int64, or undefined
  int64_t rank = 0;
  int64_t iteration = 0;
  int64_t images_seen = 0;  // before this iteration, all ranks together
};

// Micro-batch k of K: the rank's samples k, k + K, ... (decisions.md: sample n of the global batch
// goes to rank n mod W and there to micro-batch (n div W) mod K).
Batch micro_batch(const RankBatch& batch, const BatchPlan& plan, int64_t k);

// What one phase gave to the process group; with 0 of another network's.
struct PhaseTraffic {
  Traffic traffic;
  int64_t buckets = 0;
  // Seconds from the launch of its last collective to the end of the reduction, on a CPU: this rank
  // has nothing left to compute and waits.
  double waited = 0;
};

struct StepHooks {
  std::function<void(const std::string& name)> phase;  // "D forward", ...
  // A micro-batch's loss as it is reported: "Loss/D/loss", without the phase's gain. Of a step that
  // is left out the losses are not reported.
  std::function<void(const std::string& name, const at::Tensor& loss)> loss;
  std::function<Traffic()> traffic = [] { return Traffic{}; };  // so far
  std::function<void(const std::string& phase, const PhaseTraffic&)> spent =
      [](const std::string&, const PhaseTraffic&) {};
  const ForwardPrecision* precision = nullptr;  // of losses; null: the parameters' own
  std::vector<Computed>* computed = nullptr;    // what blocks computed in
  std::function<void(const Player&, const GradientReport&)> gradients =
      [](const Player&, const GradientReport&) {};
};

// All phases of one iteration that are due. Afterwards networks have moved, but for those whose
// gradients were not finite (PlayerState::guard), and gradients are gone.
void run_iteration(Recipe& recipe,
                   std::vector<PlayerState>& players,
                   const RankBatch& batch,
                   const StepHooks& hooks);

}  // namespace gantrain
