// SPDX-License-Identifier: Apache-2.0
#include "gan/growing_recipe.h"

#include "core/tensors.h"
#include "core/torch.h"
#include "ops/resample.h"

namespace gantrain {

GrowingRecipe::GrowingRecipe(const RecipeContext& context,
                             const ScheduleOptions& schedule,
                             Player G,
                             const DiscriminatorShape& discriminator,
                             const PlayerOptions& D)
    : resolution_(context.resolution.width),
      schedule_(make_schedule(schedule, context.resolution.width)),
      stage_(schedule_.stages().front()),
      D_net_(std::make_shared<ProgressiveDiscriminator>(discriminator)),
      G_player_(std::move(G)),
      D_player_{"D", D_net_, D},
      D_(D_player_, D_net_) {
  initialise_equalised(*D_net_, "D", context.seed);
  for (const Player* player : {&G_player_, &D_player_}) {
    to_device(*player->network, context.device, context.dtype);
    player->network->train();
  }
  follow_stage(D_player_, *D_net_, stage_);
  phases_ = alternating_phases(
      D_player_,
      [this](const PhaseInput& in) { return d_loss(in); },
      G_player_,
      [this](const PhaseInput& in) { return g_loss(in); });
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  alpha_ = {[this](int64_t images_seen) { return schedule_.alpha_at(images_seen); }, like};
}

at::Tensor GrowingRecipe::reals(const PhaseInput& in) const { return fade_reals(in.real, alpha_); }

at::Tensor GrowingRecipe::places(const PhaseInput& in) const {
  return uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(in.real.options());
}

double gradient_scale(PenaltySize size, int64_t pixels, int64_t resolution) {
  if (size == PenaltySize::kNative) return 1;
  return static_cast<double>(pixels) / static_cast<double>(resolution);
}

}  // namespace gantrain
