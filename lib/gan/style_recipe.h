// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "augment/augment.h"
#include "gan/recipe.h"
#include "nn/style/layers.h"

// What recipes with a style-based generator and StyleDiscriminator share.

namespace gantrain {

// The sizes that both options and data give.
MappingShape mapping_shape(const StyleOptions& options, const RecipeContext& context);
StyleDiscriminatorShape discriminator_shape(const StyleOptions& options,
                                            const RecipeContext& context);
// The bound of activations, where networks compute in float16 somewhere.
std::optional<double> clamp_of(const StyleOptions& options, const RecipeContext& context);
// How many of the highest resolutions compute in half precision.
int64_t half_resolutions(const StyleOptions& options, const RecipeContext& context);

// Returns the arguments in an official network pickle that have an effect: how kernels are fused
// and memory is laid out changes no value, and None stands for the default of two. `known` holds
// the keys that there may be, with null for any value, or with the only value that gantrain has.
// Throws UserError(kInput), which begins with `name` (file, network and argument), for others.
Json known_arguments(const Json& arguments, const Json& known, const std::string& name);
// Those of a group: "mapping_kwargs", "synthesis_kwargs".
Json known_arguments(const Json& arguments,
                     const Json& known,
                     const PickledGenerator& generator,
                     const char* group);
// Those of the mapping network.
Json mapping_arguments(const PickledGenerator& generator);

// The generator, whose weights are drawn, its mapping network, and the discriminator.
struct StyleNetworks {
  std::shared_ptr<torch::nn::Module> G;
  std::shared_ptr<StyleMapping> mapping;
  std::shared_ptr<StyleDiscriminator> D;
};

// Training with the logistic loss, R1 and the augmentation. An iteration has the phases Gmain,
// those that the recipe adds for G, Dmain, Dreg (R1).
class StyleRecipe : public Recipe {
 public:
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  Statistics end_iteration(int64_t iteration) override;
  std::vector<std::string> warnings() override { return ada_.warnings(gamma_key_); }
  NamedTensors state() override { return ada_.state(); }
  Freezing freezing() const override {
    return {D_net_->shape.freeze_layers, D_net_->layer_names()};
  }

 protected:
  // `g_share`: G's Player::step_share. D's weights are drawn here; both networks move to the
  // context's device and type.
  StyleRecipe(const RecipeContext& context,
              const RecipeFacts& facts,
              const StyleOptions& options,
              const StyleNetworks& networks,
              double g_share = 1);

  // Pictures for the generator's own phase and, without a graph, for the discriminator's, of the
  // labels c. What they add to the global sums goes to `sums`.
  virtual at::Tensor fakes_for_G(const PhaseInput& in, const at::Tensor& c, Statistics& sums) = 0;
  virtual at::Tensor fakes_for_D(const PhaseInput& in, const at::Tensor& c, Statistics& sums) = 0;
  // What D sees of pictures before their augmentation.
  virtual at::Tensor before_augmentation(const at::Tensor& x) const { return x; }

  void add_g_main();
  // `unreached`: Phase::unreached of Dreg.
  void add_d_phases(const std::vector<std::string>& unreached = {});
  // A penalty that is applied at one of `lazily` turns counts that often.
  void add_penalty(
      Player& player, const std::string& name, Cadence cadence, int64_t lazily, PhaseLoss loss);

  // The sums that phases return over the global batch: w of the mapping network moves its running
  // average, and the signs of D's scores control the augmentation.
  AllReducedSum sum_of_styles() const;
  AllReducedSum sum_of_signs();

  Latents latents_;
  std::shared_ptr<StyleDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<StyleMapping> mapping_;
  Handle<StyleDiscriminator> D_;
  std::vector<Phase> phases_;
  Ada ada_;
  DeviceNumber gamma_;

 private:
  at::Tensor scores(const PhaseInput& in, int64_t call, const at::Tensor& x, const at::Tensor& c);
  PhaseOutput g_main(const PhaseInput& in);
  PhaseOutput d_main(const PhaseInput& in);
  PhaseOutput d_r1(const PhaseInput& in);

  std::string gamma_key_;
  double w_avg_beta_;
  int64_t d_interval_;
};

// The sizes of a network that computes in float32 throughout.
template <class Shape>
Shape in_float32(Shape shape) {
  shape.synthesis.num_fp16_res = 0;
  return shape;
}

// A trained generator with a mapping network, which makes pictures in float32: in half precision
// 8-bit values would differ.
class TrainedStyleGenerator : public Generator, public MovableInput {
 public:
  std::shared_ptr<torch::nn::Module> network() override { return net_; }
  int64_t z_dim() const override { return mapping_->shape.z_dim; }
  int64_t classes() const override { return mapping_->shape.c_dim; }
  bool takes_vectors() const override { return true; }
  int64_t num_ws() const override { return num_ws_; }
  int64_t w_dim() const override { return mapping_->shape.w_dim; }
  at::Tensor images(const at::Tensor& z,
                    const at::Tensor& labels,
                    const SynthesisOptions& options) override;
  at::Tensor map(const at::Tensor& z,
                 const at::Tensor& labels,
                 const SynthesisOptions& options) override;
  // Accepts files without w_avg, which then is the mean over drawn latents, and without what
  // made() makes.
  void load(const TensorMap& tensors, const std::string& source) override;

 protected:
  TrainedStyleGenerator(std::shared_ptr<torch::nn::Module> net,
                        std::shared_ptr<StyleMapping> mapping,
                        int64_t num_ws);
  // Returns what a tensor that a file lacks is, given that of a fresh network; undefined where the
  // file must have it.
  virtual at::Tensor made(const std::string& name, const at::Tensor& fresh) const = 0;
  // Latents of layers in the network's place and type.
  at::Tensor own(const at::Tensor& ws) const { return ws.to(mapping_->w_avg.options()); }

 private:
  at::Tensor mean_w() const;

  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<StyleMapping> mapping_;
  int64_t num_ws_;
};

}  // namespace gantrain
