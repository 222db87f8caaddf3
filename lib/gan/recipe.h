// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/device_number.h"
#include "core/tensors.h"
#include "gan/generator.h"
#include "gan/phase.h"
#include "gan/recipe_facts.h"
#include "gan/schedule.h"

namespace gantrain {

// What a recipe is built from.
struct RecipeContext {
  const Config& config;
  uint64_t seed = 0;
  int64_t resolution = 64;
  int64_t channels = 3;
  std::vector<int64_t> class_counts;  // pictures of each class; empty: unconditional
  at::Device device;
  at::ScalarType dtype;
};

// What a tensor of a network here is called in a network of another size; empty: that one has no
// such tensor.
using TensorNames = std::function<std::string(const std::string& name)>;

// A model family in training: what is trained, by which phases, in their order. Knows no ranks, no
// files, no optimizers. All ranks build the same one.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual std::vector<Player*> players() = 0;  // the generator first
  virtual const std::vector<Phase>& phases() const = 0;
  virtual std::vector<AllReducedSum> sums() { return {}; }
  // Hyperparameters that phases use and that may move with the images seen. The step moves them
  // before each iteration.
  virtual std::vector<DeviceNumber*> numbers() { return {}; }
  // An iteration ends, on every rank; its sums have been handed back. Returns what is to be
  // reported of it once a rank.
  virtual Statistics end_iteration(int64_t /*iteration*/) { return {}; }
  // What the user should know now, each thing once. Called at ticks, when waiting for the device
  // does no harm.
  virtual std::vector<std::string> warnings() { return {}; }
  // What is saved beside networks and optimizers, equal on all ranks between iterations: running
  // means, the augmentation's strength. The tensors themselves; a resume copies into them.
  virtual NamedTensors state() { return {}; }
  // Samples that normalise each other (minibatch standard deviation): the micro-batch should be a
  // multiple of it.
  virtual int64_t batch_group() const { return 1; }
  // Of a recipe whose networks grow: when its stages are. Empty: it has one stage for ever.
  virtual const Schedule& schedule() const;
  // A stage begins, or is gone on with: networks and Player::active are that stage's from now on.
  virtual void enter(const Stage& /*stage*/) {}
  // Names of the players' tensors in a model file with these, for --init-from. A file's networks
  // may be of another size, and names of networks that grow count from their full size.
  virtual TensorNames names_in(const std::map<std::string, at::Tensor>& file) const;
  // "gantrain.model" of a model file: {"recipe": name, the network's configuration}.
  virtual Json model() const = 0;
};

struct ModelContent;
struct TensorFile;

// One row of the table of recipes (app/recipes.cpp).
struct RecipeRow {
  const RecipeFacts& facts;
  std::unique_ptr<Recipe> (*make)(const RecipeContext&);
  // A generator for a model file's tensors; `model` may be empty: sizes are read off the tensors.
  // Throws UserError(kInput) naming the tensor that does not fit.
  std::unique_ptr<Generator> (*make_generator)(const Json& model,
                                               const std::map<std::string, at::Tensor>& tensors,
                                               const std::string& source);
  bool (*recognises)(const std::map<std::string, at::Tensor>& tensors);  // without gantrain.model
  // The recipe's model of a file with its authors' names and layouts (gan/model_json.h); null: it
  // has no such files. Throws UserError(kInput) naming `source` and what does not fit.
  ModelContent (*import_official)(const TensorFile& file, const std::string& source) = nullptr;
};

}  // namespace gantrain
