// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/running_statistics.h"
#include "gan/player.h"
#include "ops/draws.h"

namespace gantrain {

// What a phase is for, in the names of its statistics: "Loss/G/loss" or "Loss/G/reg".
enum class Role { kMain, kPenalty };

// A phase runs at one iteration of `interval`, from iteration `first` on.
struct Cadence {
  int64_t interval = 1;
  int64_t first = 0;
  bool is_due(int64_t iteration) const { return iteration % interval == first; }
};

// What one phase hands over to a later one of the same iteration.
struct Carry {
  std::map<std::string, at::Tensor> tensors;  // with their graph
  RunningStatistics running;                  // of forward passes that the later phase accounts for
};

// One micro-batch as a phase sees it. All tensors lie on the networks' device.
struct PhaseInput {
  at::Tensor real;          // [samples.count, C, R, R] in [-1, 1], the networks' type
  at::Tensor labels;        // int64 [samples.count], undefined without labels
  DrawKey key;              // of every draw; its phase is this phase's number
  Samples samples;          // which samples of the global batch these are
  Carry carried;            // what Phase::hands_to brought here; empty where nothing was
  bool hands_over = false;  // whether a later phase takes what this one puts into `carried`
};

// Values by name, in the order in which they were made.
using Statistics = std::vector<std::pair<std::string, at::Tensor>>;

// The result of a micro-batch. Its tensors are still on the device; nothing has waited for them.
struct PhaseOutput {
  at::Tensor loss;             // [], the mean over the micro-batch, with its graph
  Statistics statistics = {};  // for stats.jsonl, by name: {"Loss/scores/real", [n]}
  Statistics sums = {};        // added up over the global batch for the AllReducedSum of that name
  Carry carried = {};          // used where PhaseInput::hands_over says so
  RunningStatistics running = {};  // how the forward passes move running statistics
};

// One loss, one backward, one reduction, one optimizer step.
struct Phase {
  std::string name;  // "D", "G", "Dreg"
  Player& player;    // the player that it trains
  // A function of the input's values, of the networks and of what the recipe keeps between
  // iterations: called twice it gives the same bits and leaves nothing behind.
  std::function<PhaseOutput(const PhaseInput&)> loss;
  Cadence cadence = {};
  Role role = Role::kMain;
  // Factor of the gradient, not of what is reported: the interval, for lazy regularisation.
  double gain = 1;
  // A promise: every active parameter of the player takes part in this loss in every call. Then
  // nothing searches for unused parameters, and a broken promise ends the run.
  bool all_parameters_used = false;
  // Names of the player's parameters that this loss cannot reach and that its step leaves as they
  // are, with their moments and step counts. Every other parameter without gradient counts as
  // having zeros.
  std::vector<std::string> unreached = {};
  // The player whose next due phase of the same iteration takes PhaseOutput::carried. The graph of
  // its network is then recorded here too. Not with accumulation, which would keep the graphs of
  // all micro-batches.
  Player* hands_to = nullptr;

  bool is_due(int64_t iteration) const { return cadence.is_due(iteration); }
  // Calls the loss; running statistics are in the output and not in their buffers.
  PhaseOutput run(const PhaseInput& input) const;
};

// A sum over the global batch that outlives its iteration: running means, signs of scores. Phases
// return their shares (PhaseOutput::sums); they are added up over micro-batches and ranks, and
// handed back once an iteration, the same on every rank.
struct AllReducedSum {
  std::string name;
  // Called for each due phase that gave such a sum, in their order, with its sum over the global
  // batch.
  std::function<void(const at::Tensor& sum)> on_reduced;
  // What on_reduced moves. A sum that is not finite leaves these as they were.
  std::vector<at::Tensor> moves;
};

}  // namespace gantrain
