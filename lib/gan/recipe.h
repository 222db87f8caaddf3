// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/generator.h"
#include "gan/phase.h"
#include "gan/recipe_facts.h"

namespace gantrain {

// The values that a recipe is built from.
struct RecipeContext {
  const Config& config;
  uint64_t seed = 0;
  Size resolution = {64, 64};
  int64_t channels = 3;
  std::vector<int64_t> class_counts;  // pictures of each class; empty: unconditional
  at::Device device;
  at::ScalarType dtype;
  // The labels of all real pictures where these are vectors, float32 [pictures, L]; else undefined.
  at::Tensor label_rows = {};

  // What the networks are conditional on: the number of classes, or of the numbers of a label.
  int64_t c_dim() const {
    return label_rows.defined() ? label_rows.size(1) : static_cast<int64_t>(class_counts.size());
  }
  at::TensorOptions tensors() const { return at::TensorOptions().device(device).dtype(dtype); }
};

// Moves networks whose weights are drawn to the context's device and type, in training mode.
void begin_training(const std::vector<const Player*>& players, const RecipeContext& context);

// Where a tensor of a network is in a file with a network of another size.
struct NameInFile {
  NameInFile(std::string there, bool by_size = false)
      : name(std::move(there)), follows_size(by_size) {}
  std::string name;   // "" where that network has no such tensor
  bool follows_size;  // it follows from that network's size, as filters do, and is not taken over
};
using TensorNames = std::function<NameInFile(const std::string& name)>;

// The layers of D, from the picture on, of which the first may be fixed, and how many of them are.
struct Freezing {
  int64_t frozen = 0;
  std::vector<std::string> layers = {};
};

// A model family in training: its networks and its phases in their order. It knows nothing of
// ranks, files or optimizers. All ranks build the same recipe.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual std::vector<Player*> players() = 0;  // the generator first
  virtual const std::vector<Phase>& phases() const = 0;
  virtual std::vector<AllReducedSum> sums() { return {}; }
  // Returns the hyperparameters of phases that may change with the images seen. The training step
  // updates them before each iteration.
  virtual std::vector<DeviceNumber*> numbers() { return {}; }
  // Ends an iteration, on every rank, after its reduced sums were handed back. Returns statistics
  // of this rank for the report.
  virtual Statistics end_iteration(int64_t /*iteration*/) { return {}; }
  // Warnings for the user, each of them once. Called at ticks, where waiting for the device does no
  // harm.
  virtual std::vector<std::string> warnings() { return {}; }
  // What is saved beside networks and optimizers, equal on all ranks between iterations: running
  // means, the augmentation's strength. The tensors themselves; a resume copies into them.
  virtual NamedTensors state() { return {}; }
  // What stays as it is in D: Mo et al. 2020.
  virtual Freezing freezing() const { return {}; }
  // The stages of a recipe whose networks grow; empty for other recipes.
  virtual const Schedule& schedule() const;
  // Begins a stage, or continues in it after a resume: from now on networks and Player::active are
  // those of the stage.
  virtual void enter(const Stage& /*stage*/) {}
  // Returns the mapping from a player's tensor names to the names in a model file with these
  // tensors, for --init-from. The file's networks may have another size, and some names count from
  // the full size.
  virtual TensorNames names_in(const TensorMap& file, const Player& player) const;
  // Returns the values of the configuration, "RECIPE.channel_max=8", with which the networks
  // would have the sizes of a model file with these tensors, but for the pictures' resolution.
  // Values that are so already are left out.
  virtual std::vector<std::string> values_that_fit(const TensorMap& /*file*/) const { return {}; }
  // Returns the "gantrain.model" of a model file: {"recipe": name, the network's configuration}.
  virtual Json model() const = 0;
};

struct ModelContent;
struct TensorFile;

// The averaged generator in an official network pickle (exchange/import.h).
struct PickledGenerator {
  std::string source;            // the file, for errors
  std::string name, class_name;  // "G_ema", "training.networks.Generator"
  std::vector<std::string> own;  // names of its constructor's positional arguments, in their order
  Json arguments;                // of its constructor; of a plain module those it has as attributes
  std::string_view program;      // the Python source of its class, or ""
  std::string_view supported;    // what can be read, for errors
  // Its tensors; empty where the pickle keeps arguments, which are read first.
  const TensorMap& tensors;
};

// How the networks of a recipe stand in official network pickles: either as instances that keep
// their constructor's arguments, or as torch pickles any module.
struct PickledForm {
  // Classes of generators that keep their arguments. Recipes may share a class; then it counts
  // whether the synthesis network has a part called "input".
  std::vector<std::string> classes = {};
  bool synthesis_has_input = false;
  std::vector<std::string> modules = {};  // what names of other classes begin with: "R3GAN."
  // Returns the "gantrain.model". Throws UserError(kInput) for what gantrain does not have.
  Json (*model)(const PickledGenerator& generator) = nullptr;
  // Returns names of tensors that a generator of this "gantrain.model" has; null: any may lack.
  std::vector<std::string> (*needed)(const Json& model) = nullptr;
};

// One row of the table of recipes (app/config/recipes.cpp).
struct RecipeRow {
  const RecipeFacts& facts;
  std::unique_ptr<Recipe> (*make)(const RecipeContext&);
  // Makes a generator that a model file's tensors fit. `model` is the file's "gantrain.model";
  // where it is empty, the sizes are read off the tensors. Throws UserError(kInput) that names the
  // tensor that does not fit.
  std::unique_ptr<Generator> (*make_generator)(const Json& model,
                                               const TensorMap& tensors,
                                               const std::string& source);
  bool (*recognises)(const TensorMap& tensors);  // without gantrain.model
  // Returns the sizes of such a generator in full: what "gantrain.model" says, and what it leaves
  // to the tensors. Null: `gantrain export` knows no program for it.
  Json (*whole_model)(const Json& model,
                      const TensorMap& tensors,
                      const std::string& source) = nullptr;
  // Converts a file that has its authors' names and layouts (gan/model_json.h). Null: the recipe
  // knows no such files. Throws UserError(kInput) that names `source` and what does not fit.
  ModelContent (*import_official)(const TensorFile& file, const std::string& source) = nullptr;
  const PickledForm* pickled = nullptr;  // null: no official pickle has such networks
};

// The row of a recipe, but for `recognises` and what files of other programs need. R is its class,
// and Trained its Generator, made from the sizes that shape_of(model, tensors, source) reads;
// model_of() returns the "gantrain.model" of such sizes.
template <class R, class Trained, auto shape_of, auto model_of>
RecipeRow make_row(const RecipeFacts& facts) {
  RecipeRow row{facts};
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<R>(context);
  };
  row.make_generator = [](const Json& model,
                          const TensorMap& tensors,
                          const std::string& source) -> std::unique_ptr<Generator> {
    return std::make_unique<Trained>(shape_of(model, tensors, source));
  };
  row.whole_model = [](const Json& model, const TensorMap& tensors, const std::string& source) {
    return model_of(shape_of(model, tensors, source));
  };
  return row;
}

// The recipes that a program has; app/config/recipes.h makes the program's table.
using RecipeTable = std::vector<RecipeRow>;

// Returns a recipe by name. Throws UserError(kInput) that names it, behind what says it ("FILE: "),
// where the table does not have it.
const RecipeRow& find_recipe(const RecipeTable& recipes,
                             const std::string& name,
                             const std::string& said_by = "");

}  // namespace gantrain
