// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>

#include "gan/schedule.h"

namespace gantrain {

// What automatic values depend on besides the configuration.
struct Site {
  int64_t ranks = 1;    // of the whole run
  bool on_gpu = false;  // each rank computes on a GPU
  int64_t of_node = 0;  // ranks of each node; 0: not known
  // The run has begun before: what was chosen then is in the configuration already.
  bool goes_on = false;
};

// How many ranks a batch can feed, and how many with whole groups of pictures that one rank must
// have together (RecipeFacts::together), and which flag asks for so many: "batch 64 feeds at most
// 64 ranks, 16 with whole groups of 4: --nnodes 2". `of_node`: as in Site.
std::string feeds_text(int64_t batch, int64_t group, int64_t of_node);

// A script that trains the same network with other code (`gantrain bench step`).
struct BenchScript {
  std::string title, file;
  std::vector<std::pair<std::string, std::string>> arguments =
      {};                              // flag -> the key with its value
  std::vector<std::string> more = {};  // arguments that stay
  bool official = false;               // runs the authors' code, from a folder that the user names
  bool (*fits)(const Config& config) = nullptr;  // null: any configuration
};

// Words with blanks between them, as a list.
std::vector<std::string> words(const std::string& text);

// The script RECIPE.py with the authors' code, which makes squares alone. Its arguments are the
// resolution, the batch and these keys of the recipe, blanks between: "map_depth" is --map-depth.
BenchScript official_script(const std::string& recipe, const std::string& keys);

// The network by which `gantrain bench step` measures a recipe: a preset with changes.
struct BenchCase {
  int place = 0;  // in the list of networks
  std::string about, preset;
  std::vector<std::string> set;
  std::vector<BenchScript> scripts = {};
};

// The network by which `gantrain bench ddp` times the synchronisation of gradients.
struct DdpCase {
  std::string about, preset;
  std::vector<std::string> set;
  int64_t batch = 1;  // of a rank
  std::vector<std::string> peer =
      {};  // arguments of scripts/peers/ddp.py for the same; empty: none
};

// What the exported Python program is made of, and how it makes latents.
struct PythonExport {
  std::vector<std::string> parts = {};  // of lib/exchange/python, in their order; empty: none
  bool normalises_z = true;
  std::string w_average = "mapping.w_avg";  // the tensor that truncation pulls styles to
};

// What a loss is where G and D are in balance, and a sentence for the reader of its curve.
struct LossAtEquilibrium {
  double value;
  std::string words;
};
using SettingOf = std::function<std::string(const std::string& key)>;

// Those of G's softplus(-D(G(z))) and D's cross-entropy of real and fake (Goodfellow et al. 2014).
std::vector<LossAtEquilibrium> nonsaturating_equilibrium();

// What is known of a recipe without LibTorch, so that the thin program can use it. Each recipe has
// one such record, facts() in its options.h; recipes/facts.h lists them. The part that computes is
// RecipeRow (gan/recipe.h), which refers to this record.
struct RecipeFacts {
  std::string name;
  std::string title = name;   // "StyleGAN2"
  std::string citation = {};  // of its paper
  // Adds all configuration keys of the recipe with their defaults.
  void (*add_keys)(Schema& schema) = nullptr;
  // Throws UserError(kUsage) unless networks can be built for pictures of that size.
  void (*check_resolution)(const Size& resolution) = nullptr;
  // Whether data.cond=auto uses the labels that the data has; null: the recipe is unconditional.
  bool (*wants_labels)(const Config& config) = nullptr;
  // Whether a label may be a vector of numbers: several classes at once, values.
  bool takes_vectors = false;
  // Fills in automatic values for a run at `site`, and returns lines that say what was chosen and
  // why. The origin of a chosen value begins with "auto"; values that already have such an origin
  // stay. Throws UserError(kUsage) for values that contradict each other. Null: there is nothing to
  // choose.
  std::vector<std::string> (*complete)(Config& config, const Site& site) = nullptr;
  // Returns the stages of growth from a complete configuration; null: the networks never grow.
  Schedule (*schedule)(const Config& config) = nullptr;
  // How many pictures of a batch are normalised together, so that one rank must have them; a whole
  // batch where batch statistics are each rank's own. `config` is complete. Null: one.
  int64_t (*together)(const Config& config) = nullptr;
  // Whether that is about batch statistics, for which a rank's share does as well.
  bool batch_statistics = false;
  // Whether the recipe has half-precision blocks of its own, which precision.mode=blocks uses.
  bool has_blocks = false;
  bool bfloat16_blocks = false;  // these are bfloat16, not float16
  // Whether ADA's strength can follow the discriminator's overfitting: its scores have a sign.
  bool adaptive = true;
  // Whether `gantrain import FILE --recipe NAME` can read safetensors files whose tensors have the
  // names of the authors' own variables.
  bool has_official_names = false;
  // The losses at the equilibrium in a run of these settings; null: nothing is known.
  std::vector<LossAtEquilibrium> (*equilibrium)(const SettingOf& setting) = nullptr;
  PythonExport python = {};
  BenchCase bench = {};
  DdpCase bench_ddp = {};
  // Arguments of `gantrain train` for a run of tiny networks (`gantrain bench launch`).
  std::vector<std::string> tiny_run = {};

  // How many samples normalise each other on however many ranks (minibatch standard deviation); the
  // micro-batch should be a multiple of it.
  int64_t group(const Config& config) const {
    return together == nullptr || batch_statistics ? 1 : together(config);
  }
  // Whether the recipe can use labels at all.
  bool conditional() const { return wants_labels != nullptr; }
};

// Returns data.resolution, the size of the pictures that the networks make and see.
Size resolution_of(const Config& config);

// Throws UserError(kUsage) that names data.resolution and the nearest sizes that can be had, unless
// `networks` ("DCGAN's networks") that double a start size so often can have this size.
void check_doubled_size(const std::string& networks,
                        const Size& resolution,
                        const Doublings& doublings);

// Sets keys whose values a recipe chooses; a key's value afterwards is the one that counts.
class Chooser {
 public:
  // `why` is the origin of what is chosen; it begins with "auto".
  Chooser(Config& config, std::string why) : config_(config), why_(std::move(why)) {}

  // Unless the user has set it.
  void choose(const std::string& key, const Json& value) {
    if (!config_.given(key)) set(key, value);
  }
  // Unless a preset or the user has set it.
  void choose_default(const std::string& key, const Json& value) {
    if (config_.origin(key) == "default") set(key, value);
  }
  // What was chosen: "train.batch 32, G.adam.lr 0.002".
  const std::string& said() const { return said_; }

 private:
  void set(const std::string& key, const Json& value);

  Config& config_;
  std::string why_;
  std::string said_;
};

// Whether the run begins now at the weights of another one (run.init_from).
bool transfers(const Config& config, const Site& site);

// What the reference codes do in such a run: the average follows at once, and the augmentation
// adapts faster. Adds the line that says so, in which `also` stands first ("no blur, ").
void choose_for_transfer(Config& config,
                         const Site& site,
                         std::vector<std::string>& lines,
                         const std::string& also = "");

// What the reference code of style-based networks does on GPUs and only there: half-precision
// blocks at the highest resolutions, RECIPE.num_fp16_res of them, and three loading threads. The
// blocks compute in `type`, a value of precision.amp. --amp alone means such blocks too; --amp=fp16
// and bf16 ask for autocast. Adds the line that says what was chosen.
void choose_for_gpu(Config& config,
                    const Site& site,
                    const std::string& recipe,
                    std::vector<std::string>& lines,
                    const char* type = "fp16");

// Cuts a rank's batch into micro-batches of at most RECIPE.max_micro_batch images, multiples of
// RECIPE.mbstd_group where they can be. A GPU takes all of them at once where they fit, unless the
// user has set this limit.
void choose_micro_batch(Config& config, const Site& site, const std::string& recipe);

}  // namespace gantrain
