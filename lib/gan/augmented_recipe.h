// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "augment/augment.h"
#include "gan/recipe.h"

namespace gantrain {

// The pictures of a run that an augmentation is made for.
inline Ada::Pictures augmented_pictures(const RecipeContext& context) {
  return {context.resolution, context.channels, context.config.get("train.batch"), context.device};
}

// What recipes share that have two networks of their own and an augmentation T before D. G and D
// are their classes; both have a function initialise(network, player, seed).
template <class Generator, class Discriminator>
class AugmentedRecipe : public Recipe {
 public:
  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  NamedTensors state() override { return T_.state(); }
  Statistics end_iteration(int64_t iteration) override {
    Statistics now = {{"Progress/augment", T_.p().clone()}};
    T_.end_iteration(iteration);
    return now;
  }

 protected:
  // `d_share`: D's Player::step_share. The weights are drawn here; begin_training() is left to the
  // recipe.
  template <class Options>
  AugmentedRecipe(const RecipeContext& context,
                  const Options& o,
                  std::shared_ptr<Generator> G,
                  std::shared_ptr<Discriminator> D,
                  double d_share)
      : G_net_(std::move(G)),
        D_net_(std::move(D)),
        G_player_{"G", G_net_, o.G},
        D_player_{"D", D_net_, o.D, {""}, d_share},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_),
        T_(o.ada, o.augment, o.augmentation, augmented_pictures(context)) {
    initialise(*G_net_, "G", context.seed);
    initialise(*D_net_, "D", context.seed);
  }

  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<Discriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<Discriminator> D_;
  Ada T_;
  std::vector<Phase> phases_;
};

}  // namespace gantrain
