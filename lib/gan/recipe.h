// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/tensors.h"
#include "gan/player.h"

namespace gantrain {

// One micro-batch as a loss sees it.
struct Batch {
  at::Tensor real;    // [samples.count, C, R, R] in [-1, 1], the networks' dtype and device
  at::Tensor labels;  // int64 [samples.count], undefined without labels
  Samples samples;    // which samples of the global batch these are: keys of every draw
  int64_t iteration = 0;
};

// One loss, one backward, one reduction, one optimizer step.
struct Phase {
  std::string name;  // "D", "G", "D_r1"
  Player& player;
  int64_t interval = 1;                          // run at one iteration of so many, ...
  int64_t first = 0;                             // ... from this one on
  std::function<at::Tensor(const Batch&)> loss;  // mean over the micro-batch
};

// Receives values whose mean goes to stats.jsonl ("Loss/scores/real"); they stay on their device
// until the tick ends.
using Record = std::function<void(const std::string& name, const at::Tensor& values)>;

// What a recipe is built from.
struct RecipeContext {
  const Config& config;
  uint64_t seed = 0;
  int64_t resolution = 64;
  int64_t channels = 3;
  int64_t classes = 0;  // 0: unconditional
  at::Device device;
  at::ScalarType dtype;
  Record record;
};

// A model family in training: what is trained, by which phases, in their order. Knows no ranks, no
// files, no optimizers. All ranks build the same one.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual std::vector<Player*> players() = 0;  // the generator first
  virtual std::vector<Phase>& phases() = 0;
  // "gantrain.model" of a model file: {"recipe": name, the network's configuration}.
  virtual Json model() const = 0;
};

// A trained generator: sample grids, metrics, `gantrain generate`.
class Generator {
 public:
  virtual ~Generator() = default;
  virtual std::shared_ptr<torch::nn::Module>
  network() = 0;  // its state is the model file's content
  virtual int64_t z_dim() const = 0;
  virtual int64_t classes() const { return 0; }
  // z [N, z_dim] float32 on any device, labels int64 [N] or undefined -> [N, C, R, R] float32,
  // about
  // [-1, 1], in evaluation mode, without gradients, on the network's device.
  virtual at::Tensor images(const at::Tensor& z, const at::Tensor& labels) = 0;
};

// One row of the table of recipes (app/recipes.cpp).
struct RecipeRow {
  std::string name;
  std::unique_ptr<Recipe> (*make)(const RecipeContext&);
  // A generator for a model file's tensors; `model` may be empty: sizes are read off the tensors.
  // Throws UserError(kInput) naming the tensor that does not fit.
  std::unique_ptr<Generator> (*make_generator)(const Json& model,
                                               const std::map<std::string, at::Tensor>& tensors,
                                               const std::string& source);
  bool (*recognises)(const std::map<std::string, at::Tensor>& tensors);  // without gantrain.model
};

}  // namespace gantrain
