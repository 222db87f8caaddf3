// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/step/training_step.h"

// The one set-up of tests that train: a recipe's row and a configuration become a TrainingStep,
// just as the trainer makes it, on the CPU.

namespace gantrain {

// All keys of a run of that recipe with their defaults: the trainer's sections and the recipe's
// own; then `changes`.
Config step_config(const RecipeFacts& facts, const std::map<std::string, Json>& changes = {});

// A global batch. Each rank takes its share of it.
struct GlobalBatch {
  at::Tensor pictures;  // [batch, C, R, R]; they are brought to the networks' type
  at::Tensor labels;    // int64 [batch], vectors [batch, L], or undefined
  int64_t iteration = 0;
  std::optional<int64_t> images_seen = std::nullopt;  // none: iteration * batch
};

// A training step with all that it refers to. Resolution and channels are those of data.*
// (channels: 3 where it says auto).
class StepOnCpu {
 public:
  // `doing`, `label_rows`: as in StepSetup.
  using Doing = std::function<void(const std::string&)>;
  StepOnCpu(
      const RecipeRow& row,
      const Config& config,
      const Rendezvous& rendezvous = {},
      const std::vector<int64_t>& class_counts = {},
      const Doing& doing = [](const std::string&) {},
      const at::Tensor& label_rows = {});
  // With ranks that have met already, for several steps one after the other.
  StepOnCpu(
      std::shared_ptr<Group> group,
      const RecipeRow& row,
      const Config& config,
      const std::vector<int64_t>& class_counts = {},
      const Doing& doing = [](const std::string&) {},
      const at::Tensor& label_rows = {});

  StepOnCpu(const StepOnCpu&) = delete;  // the step refers to the members
  StepOnCpu& operator=(const StepOnCpu&) = delete;

  TrainingStep& operator*() { return *step_; }
  TrainingStep* operator->() { return step_.get(); }
  const std::shared_ptr<Group>& group() const { return group_; }
  // The player of that name.
  const PlayerState& player(const std::string& name) const;

  // One iteration on this rank's share of the batch.
  StepReport run(const GlobalBatch& batch, const RankRequests& mine = {});
  StepReport run(const at::Tensor& pictures, int64_t iteration) {
    return run(GlobalBatch{pictures, {}, iteration});
  }

  // Copies of everything that an exact resume needs, by TrainingStep::state()'s names.
  NamedTensors state() const;
  // Goes on with such copies, of a step made in the same way.
  void load(const NamedTensors& state);

 private:
  Config config_;
  RecipeRow row_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<TrainingStep> step_;
};

// What a phase of the recipe gets of all `pictures`, as one rank's only micro-batch.
PhaseInput whole_batch(const Recipe& recipe,
                       const Phase& phase,
                       const GlobalBatch& batch,
                       uint64_t seed = 0);

// The ranks of a rendezvous, on CPUs.
std::shared_ptr<Group> join_on_cpu(const Rendezvous& rendezvous = {});

// Runs the phase twice with the same input and back-propagates each loss, keeping the graph of what
// was carried to it. Returns what differed between the two or was left behind in networks or in the
// recipe's state, each by name; empty where the phase is a function of its values.
std::vector<std::string> differences_when_run_twice(Recipe& recipe,
                                                    const Phase& phase,
                                                    const PhaseInput& input,
                                                    const ForwardPrecision& precision = {});

// A generator that is no more than its network and draws no pictures.
std::unique_ptr<Generator> silent_generator(std::shared_ptr<torch::nn::Module> network);

// The row of a toy recipe. `make_network`: a function that makes the generator's network anew from
// its tensors by name. `facts` must outlive the row.
template <auto make_network>
RecipeRow row_of(const RecipeFacts& facts, std::unique_ptr<Recipe> (*make)(const RecipeContext&)) {
  RecipeRow row{facts};
  row.make = make;
  row.make_generator = [](const Json&,
                          const std::map<std::string, at::Tensor>& tensors,
                          const std::string&) { return silent_generator(make_network(tensors)); };
  row.recognises = [](const std::map<std::string, at::Tensor>&) { return false; };
  return row;
}

}  // namespace gantrain
