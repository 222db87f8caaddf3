// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/recipe.h"

#include <torch/torch.h>

#include "gan/phase_draws.h"
#include "gan/alternating_phases.h"
#include "ops/resample.h"
#include "recipes/pggan/convert.h"
#include "recipes/pggan/losses.h"
#include "recipes/pggan/networks.h"
#include "recipes/pggan/trained_generator.h"

namespace gantrain::pggan {

using at::Tensor;

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution, c.channels, o.net};
}

class PgGan final : public Recipe {
 public:
  explicit PgGan(const RecipeContext& context)
      : context_(context),
        options_(context.config.read<Options>("")),
        schedule_(make_schedule(options_.schedule, context.resolution)),
        stage_(schedule_.stages().front()),
        draws_(context.seed, options_.net.latent_size, {}),
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
        [this](const Batch& b, int64_t phase) { return d_loss(b, phase); },
        G_player_,
        [this](const Batch& b, int64_t phase) { return g_loss(b, phase); });
  }

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  int64_t batch_group() const override { return D_net_->shape.mbstd_group_size; }
  const Schedule& schedule() const override { return schedule_; }
  void enter(const Stage& stage) override { stage_ = stage; }
  TensorNames names_in(const std::map<std::string, at::Tensor>& file) const override {
    return level_names_in(file, context_.resolution);
  }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  Level level_of(const Batch& b) const {
    return {stage_.resolution, schedule_.alpha_at(b.images_seen)};
  }

  Tensor pictures(const Batch& b, int64_t phase) {
    return G_(draws_.z(b, phase).to(b.real.options()), level_of(b));
  }

  Tensor d_loss(const Batch& b, int64_t phase) {
    const Level level = level_of(b);
    const Tensor fake = [&] {
      const torch::NoGradGuard no_grad;
      return pictures(b, phase);
    }();
    const Stream stream(context_.seed, "gp", static_cast<uint64_t>(b.iteration));
    const DiscriminatorLoss d =
        pggan::d_loss([&](const Tensor& x) { return D_(x, level); },
                      fade_reals(b.real, level.alpha),
                      fake,
                      uniform(stream, b.samples, {1, 1, 1}).to(b.real.options()),
                      options_.loss,
                      context_.resolution);
    context_.record("Loss/scores/real", d.real_scores);
    context_.record("Loss/signs/real", d.real_scores.sign());
    context_.record("Loss/scores/fake", d.fake_scores);
    context_.record("Loss/gradient_norm", d.interpolated_norms);
    return d.loss;
  }

  Tensor g_loss(const Batch& b, int64_t phase) {
    return pggan::g_loss(D_(pictures(b, phase), level_of(b)));
  }

  RecipeContext context_;
  Options options_;
  Schedule schedule_;
  Stage stage_;
  PhaseDraws draws_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<ProgressiveDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Generator> G_;
  Handle<ProgressiveDiscriminator> D_;
  std::vector<Phase> phases_;
};

}  // namespace

RecipeRow row() {
  RecipeRow row;
  row.name = "pggan";
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<PgGan>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::pggan
