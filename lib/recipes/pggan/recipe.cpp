// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include "core/torch.h"
#include "gan/alternating_phases.h"
#include "gan/latents.h"
#include "gan/scheduled_number.h"
#include "ops/resample.h"
#include "recipes/pggan/convert.h"
#include "recipes/pggan/losses.h"
#include "recipes/pggan/networks.h"
#include "recipes/pggan/trained_generator.h"

namespace gantrain::pggan {

using at::Tensor;

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution.width, c.channels, o.net};
}

class PgGan final : public Recipe {
 public:
  explicit PgGan(const RecipeContext& context)
      : resolution_(context.resolution.width),
        options_(context.config.read<Options>("")),
        schedule_(make_schedule(options_.schedule, context.resolution.width)),
        stage_(schedule_.stages().front()),
        latents_(options_.net.latent_size, {}, context.device),
        G_net_(std::make_shared<Generator>(shape_of(options_, context))),
        D_net_(std::make_shared<ProgressiveDiscriminator>(
            discriminator_shape(shape_of(options_, context)))),
        G_player_{"G", G_net_, options_.G},
        D_player_{"D", D_net_, options_.D},
        G_(G_player_, G_net_),
        D_(D_player_, D_net_) {
    for (const Player* player : {&G_player_, &D_player_}) {
      initialise(*player->network, player->name, context.seed);
      move_to(*player->network, context.device, context.dtype);
      player->network->train();
    }
    follow_stage(G_player_, *G_net_, stage_);
    follow_stage(D_player_, *D_net_, stage_);
    phases_ = alternating_phases(
        D_player_,
        [this](const PhaseInput& in) { return d_loss(in); },
        G_player_,
        [this](const PhaseInput& in) { return g_loss(in); });
    const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
    alpha_ = {[this](int64_t images_seen) { return schedule_.alpha_at(images_seen); }, like};
    gp_weight_ = on_device(options_.loss.gp_weight, like);
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<DeviceNumber*> numbers() override { return {&alpha_, &gp_weight_}; }
  int64_t batch_group() const override { return D_net_->shape.mbstd_group_size; }
  const Schedule& schedule() const override { return schedule_; }
  void enter(const Stage& stage) override { stage_ = stage; }
  TensorNames names_in(const std::map<std::string, at::Tensor>& file,
                       const Player&) const override {
    return level_names_in(file, resolution_);
  }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  // The stage, and how far its newest layers are faded in.
  Level level() const { return {stage_.resolution, alpha_}; }

  Tensor pictures(const PhaseInput& in) { return G_(latents_.z(in), level()); }

  PhaseOutput d_loss(const PhaseInput& in) {
    const Tensor fake = [&] {
      const torch::NoGradGuard no_grad;
      return pictures(in);
    }();
    const DiscriminatorLoss d = pggan::d_loss(
        [&](const Tensor& x) { return D_(x, level()); },
        fade_reals(in.real, alpha_),
        fake,
        uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(in.real.options()),
        gp_weight_,
        options_.loss,
        resolution_);
    return {d.loss,
            {{"Loss/scores/real", d.real_scores},
             {"Loss/signs/real", d.real_scores.sign()},
             {"Loss/scores/fake", d.fake_scores},
             {"Loss/gradient_norm", d.interpolated_norms}}};
  }

  PhaseOutput g_loss(const PhaseInput& in) { return {pggan::g_loss(D_(pictures(in), level()))}; }

  int64_t resolution_;
  Options options_;
  Schedule schedule_;
  Stage stage_;
  Latents latents_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<ProgressiveDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<ProgressiveDiscriminator> D_;
  DeviceNumber alpha_, gp_weight_;
  std::vector<Phase> phases_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<PgGan>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::pggan
