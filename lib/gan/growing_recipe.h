// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "augment/diff_augment.h"
#include "gan/model_json.h"
#include "gan/recipe.h"
#include "nn/progressive.h"
#include "ops/losses.h"

namespace gantrain {

// Makes the parameters of a growing network active or inactive as `stage` says. `net` and `stage`
// must outlive the player.
template <class Net>
void follow_stage(Player& player, const Net& net, const Stage& stage) {
  player.active = [&net, &stage](const std::string& parameter) {
    return net.active(parameter, stage.resolution, stage.fading);
  };
}

// What recipes share whose networks grow (Karras et al. 2018a, sec. 2): a generator that
// follow_stage() knows, a ProgressiveDiscriminator, stages, and two players trained in turn.
class GrowingRecipe : public Recipe {
 public:
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  const Schedule& schedule() const override { return schedule_; }
  void enter(const Stage& stage) override { stage_ = stage; }
  TensorNames names_in(const TensorMap& file, const Player&) const override {
    return level_names_in(file, resolution_);
  }

 protected:
  // G's weights are drawn already; D's are drawn here. Both networks move to the context's device
  // and type.
  GrowingRecipe(const RecipeContext& context,
                const ScheduleOptions& schedule,
                Player G,
                const DiscriminatorShape& discriminator,
                const PlayerOptions& D,
                const Latents& latents);
  // Pictures of the present level. What they add to the global sums goes to `sums`.
  virtual at::Tensor pictures(const PhaseInput& in, const at::Tensor& labels, Statistics& sums) = 0;
  // D's loss of real and generated pictures of the level, with its penalties. D is called with the
  // real pictures, with the generated ones and, for some penalties, with what lies between.
  virtual DiscriminatorLoss loss_of_D(const Discriminate& D,
                                      const at::Tensor& real,
                                      const at::Tensor& fake,
                                      const PhaseInput& in) = 0;
  virtual PhaseOutput loss_of_G(const at::Tensor& fake_scores) = 0;

  // The stage, and how far its newest layers are faded in.
  StageLevel level() const { return {stage_.resolution, alpha_}; }
  // Draws where between real and generated pictures a penalty is taken, [N, 1, 1, 1] in [0, 1).
  at::Tensor places(const PhaseInput& in) const;

  int64_t resolution_;
  Schedule schedule_;
  Stage stage_;
  Latents latents_;
  std::shared_ptr<ProgressiveDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<ProgressiveDiscriminator> D_;
  DeviceNumber alpha_;

 private:
  at::Tensor scores(const PhaseInput& in,
                    Shown kind,
                    const at::Tensor& x,
                    const at::Tensor& labels);
  PhaseOutput d_loss(const PhaseInput& in);
  PhaseOutput g_loss(const PhaseInput& in);

  AugmentChoice<DiffAugmentMode> augmentation_;
  std::vector<Phase> phases_;
};

// Returns the factor of the norm of a penalty's gradient at a level of `pixels`. The full picture
// holds each pixel (resolution / pixels)^2 times, and D takes the mean of these copies. So the
// gradient by each copy is smaller by that square, and the norm over all copies is smaller by
// resolution / pixels.
double gradient_scale(PenaltySize size, int64_t pixels, int64_t resolution);

// Loads the tensors of official variables into a generator whose "gantrain.model" is `model`, and
// returns its whole content with D's tensors, "D...." Throws UserError(kInput) that names `source`
// and the tensor that is missing, of another shape or none of the network's; `group` begins its
// name.
ModelContent content_of_official(const torch::nn::Module& net,
                                 Json model,
                                 const TensorMap& tensors,
                                 const std::string& source,
                                 const std::string& group);

}  // namespace gantrain
