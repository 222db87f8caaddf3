// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/tensors.h"
#include "gan/player.h"
#include "gan/schedule.h"

namespace gantrain {

// One micro-batch as a loss sees it.
struct Batch {
  at::Tensor real;    // [samples.count, C, R, R] in [-1, 1], the networks' dtype and device
  at::Tensor labels;  // int64 [samples.count], undefined without labels
  Samples samples;    // which samples of the global batch these are: keys of every draw
  int64_t iteration = 0;
  int64_t images_seen = 0;  // real images shown before this iteration, all ranks together
};

// One loss, one backward, one reduction, one optimizer step.
struct Phase {
  std::string name;  // "D", "G", "D_r1"
  Player& player;
  int64_t interval = 1;                          // run at one iteration of so many, ...
  int64_t first = 0;                             // ... from this one on
  std::function<at::Tensor(const Batch&)> loss;  // mean over the micro-batch
  // Factor of the gradient, not of what is reported: the interval, for lazy regularisation.
  double gain = 1;
  bool regularises = false;  // reported as Loss/G/reg, not Loss/G/loss
  // A promise: every active parameter of the player takes part in this loss, always. Then nobody
  // searches for those that do not; a promise that is broken ends the run.
  bool all_parameters_used = false;
  // A player that this phase only looks at, but whose own phase of the same iteration may use these
  // outputs again (Handle::again) instead of computing them twice: its graph is recorded. Not with
  // accumulation, which would keep the graphs of all micro-batches.
  const Player* records = nullptr;

  bool is_due(int64_t iteration) const { return iteration % interval == first; }
};

// Receives values whose mean goes to stats.jsonl ("Loss/scores/real"); they stay on their device
// until the tick ends.
using Record = std::function<void(const std::string& name, const at::Tensor& values)>;

// A sum over the global batch that outlives its iteration (running means, signs of scores). Losses
// add to it; the loop adds it up over ranks, once an iteration, and hands it back.
struct Shared {
  std::string name;
  at::Tensor sum;  // any shape, floating point, the networks' device; 0 when an iteration begins
  // At the end of an iteration, `sum` being that of the global batch: the same on every rank.
  std::function<void(int64_t iteration)> moved;
};

// What a recipe is built from.
struct RecipeContext {
  const Config& config;
  uint64_t seed = 0;
  int64_t resolution = 64;
  int64_t channels = 3;
  std::vector<int64_t> class_counts;  // pictures of each class; empty: unconditional
  at::Device device;
  at::ScalarType dtype;
  Record record;
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
  virtual std::vector<Phase>& phases() = 0;
  virtual std::vector<Shared*> shared() { return {}; }
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

enum class NoiseMode { kConst, kRandom, kNone };
constexpr std::array<std::string_view, 3> names(NoiseMode) { return {"const", "random", "none"}; }

// How a picture is to be drawn, for generators that have it.
struct SynthesisOptions {
  double trunc = 1;  // psi: w moved towards its mean (Karras et al. 2018, app. B)
  std::optional<int64_t> trunc_cutoff;  // layers that it is applied to; none: all
  NoiseMode noise = NoiseMode::kConst;
  uint64_t noise_seed = 0;  // of random noise
  int64_t level = 0;        // pixels of a progressive network's stage; 0: full size
  double alpha = 1;         // weight of that stage's newest layers
};

// A trained generator: sample grids, metrics, `gantrain generate`. Everything is in evaluation mode
// and without gradients; tensors are float32, on any device; what comes out is on the network's.
class Generator {
 public:
  virtual ~Generator() = default;
  virtual std::shared_ptr<torch::nn::Module>
  network() = 0;  // its state is the model file's content
  virtual int64_t z_dim() const = 0;
  virtual int64_t classes() const { return 0; }
  // z [N, z_dim], labels int64 [N] or undefined -> [N, C, R, R], about [-1, 1].
  virtual at::Tensor images(const at::Tensor& z,
                            const at::Tensor& labels,
                            const SynthesisOptions& options = {}) = 0;

  // Style-based generators: the layers' latents w [N, num_ws, w_dim], truncated as `drawing` says,
  // and pictures of them. num_ws() = 0: there is no such space, and the two must not be called.
  virtual int64_t num_ws() const { return 0; }
  virtual int64_t w_dim() const { return 0; }
  virtual at::Tensor map(const at::Tensor& z, const at::Tensor& labels, const SynthesisOptions& options);
  virtual at::Tensor synthesize(const at::Tensor& ws, const SynthesisOptions& options);
  // Has noise inputs; sizes of a progressive network's stages, smallest first.
  virtual bool has_noise() const { return false; }
  virtual std::vector<int64_t> levels() const { return {}; }

  // Copies a model file's tensors into the network. Throws UserError(kInput) naming `source` and
  // the tensor that does not fit; a recipe may do without buffers that can be had otherwise.
  virtual void load(const std::map<std::string, at::Tensor>& tensors, const std::string& source);
};

struct ModelContent;
struct TensorFile;

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
  // The recipe's model of a file with its authors' names and layouts (gan/model_json.h); null: it
  // has no such files. Throws UserError(kInput) naming `source` and what does not fit.
  ModelContent (*import_official)(const TensorFile& file, const std::string& source) = nullptr;
  // Whether data.cond=auto uses the labels that the data has; null: the recipe has no use for any.
  bool (*wants_labels)(const Config&) = nullptr;
};

}  // namespace gantrain
