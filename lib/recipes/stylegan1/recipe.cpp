// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/recipe.h"

#include <torch/torch.h>

#include "gan/phase_draws.h"
#include "gan/alternating_phases.h"
#include "ops/resample.h"
#include "recipes/stylegan1/convert.h"
#include "recipes/stylegan1/losses.h"
#include "recipes/stylegan1/networks.h"
#include "recipes/stylegan1/styles.h"
#include "recipes/stylegan1/trained_generator.h"

namespace gantrain::stylegan1 {

using at::Tensor;

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution, c.channels, static_cast<int64_t>(c.class_counts.size()), o.net};
}

class StyleGan1 final : public Recipe {
 public:
  explicit StyleGan1(const RecipeContext& context);

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  std::vector<Phase>& phases() override { return phases_; }
  std::vector<Shared*> shared() override { return {&w_sums_}; }
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
  Tensor styles(const Batch& b, int64_t phase, const Tensor& labels);
  Tensor pictures(const Batch& b, int64_t phase, const Tensor& labels);
  Tensor d_loss(const Batch& b, int64_t phase);
  Tensor g_loss(const Batch& b, int64_t phase);
  void move_w_average(int64_t iteration);

  RecipeContext context_;
  Options options_;
  Schedule schedule_;
  Stage stage_;
  PhaseDraws draws_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<ProgressiveDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Mapping> mapping_;
  Handle<Synthesis> synthesis_;
  Handle<ProgressiveDiscriminator> D_;
  std::vector<Phase> phases_;
  Shared w_sums_;  // a row a phase: mean w of its micro-batches, and their number
};

StyleGan1::StyleGan1(const RecipeContext& context)
    : context_(context),
      options_(context.config.read<Options>("")),
      schedule_(make_schedule(options_.schedule, context.resolution)),
      stage_(schedule_.stages().front()),
      draws_(context.seed, options_.net.latent_size, context.class_counts),
      G_net_(std::make_shared<Generator>(shape_of(options_, context))),
      D_net_(std::make_shared<ProgressiveDiscriminator>(
          discriminator_shape(shape_of(options_, context)))),
      G_player_{"G", G_net_, options_.G, {"mapping", "synthesis"}},
      D_player_{"D", D_net_, options_.D},
      mapping_(G_player_, G_net_->mapping, "mapping"),
      synthesis_(G_player_, G_net_->synthesis, "synthesis"),
      D_(D_player_, D_net_) {
  initialise(*G_net_, "G", context.seed);
  initialise_equalised(*D_net_, "D", context.seed);
  for (const Player* player : {&G_player_, &D_player_}) {
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
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  const auto phases = static_cast<int64_t>(phases_.size());
  w_sums_ = {"dlatent_avg",
             torch::zeros({phases, options_.net.dlatent_size + 1}, like),
             [this](int64_t iteration) { move_w_average(iteration); }};
}

// w of each layer, two styles mixed with probability options.mixing (sec. 3.1). The cut-off lies
// among the layers of the present stage.
Tensor StyleGan1::styles(const Batch& b, int64_t phase, const Tensor& labels) {
  const auto like = b.real.options();
  const Tensor w = mapping_(draws_.z(b, phase, 0).to(like), labels);
  w_sums_.sum[phase].add_(torch::cat({w.detach().mean(0), torch::ones({1}, like)}));
  const int64_t layers = layers_at(stage_.resolution);
  const int64_t cutoff = draws_.mixing_cutoff(b.iteration, phase, options_.mixing, layers);
  const Tensor ws = broadcast(w, G_net_->num_ws());
  if (cutoff == layers) return ws;
  const Tensor other = mapping_(draws_.z(b, phase, 1).to(like), labels);
  return mix_styles(ws, broadcast(other, G_net_->num_ws()), cutoff);
}

Tensor StyleGan1::pictures(const Batch& b, int64_t phase, const Tensor& labels) {
  const NoiseKey key{
      context_.seed, static_cast<uint64_t>(b.iteration), static_cast<uint64_t>(phase), b.samples};
  return synthesis_(styles(b, phase, labels), level_of(b), drawn_noise(key, b.real));
}

Tensor StyleGan1::d_loss(const Batch& b, int64_t phase) {
  const Level level = level_of(b);
  // Generated pictures have the labels of the real ones, so that mixtures of both have one.
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    return pictures(b, phase, b.labels);
  }();
  const Tensor real = fade_reals(b.real, level.alpha);
  const Stream stream(context_.seed, "gp", static_cast<uint64_t>(b.iteration));
  const Tensor t = options_.loss.kind == Loss::kWganGp
                       ? uniform(stream, b.samples, {1, 1, 1}).to(real.options())
                       : Tensor();
  const DiscriminatorLoss d =
      stylegan1::d_loss([&](const Tensor& x) { return D_(x, level, b.labels); },
                        real,
                        fake,
                        t,
                        options_.loss,
                        context_.resolution);
  context_.record("Loss/scores/real", d.real_scores);
  context_.record("Loss/signs/real", d.real_scores.sign());
  context_.record("Loss/scores/fake", d.fake_scores);
  if (d.r1_penalty.defined()) context_.record("Loss/r1_penalty", d.r1_penalty);
  if (d.r2_penalty.defined()) context_.record("Loss/r2_penalty", d.r2_penalty);
  if (d.interpolated_norms.defined()) context_.record("Loss/gradient_norm", d.interpolated_norms);
  return d.loss;
}

Tensor StyleGan1::g_loss(const Batch& b, int64_t phase) {
  const Tensor labels = draws_.labels(b, phase, b.real.device());
  const Tensor fake_scores = D_(pictures(b, phase, labels), level_of(b), labels);
  context_.record("Loss/signs/fake", fake_scores.sign());
  return stylegan1::g_loss(fake_scores, options_.loss);
}

// Once for each phase of the iteration, in their order.
void StyleGan1::move_w_average(int64_t iteration) {
  const int64_t w_dim = options_.net.dlatent_size;
  for (size_t i = 0; i < phases_.size(); ++i) {
    if (!phases_[i].is_due(iteration)) continue;
    const Tensor row = w_sums_.sum[static_cast<int64_t>(i)];
    move_average_(G_net_->dlatent_avg, row.narrow(0, 0, w_dim) / row[w_dim], options_.w_avg_beta);
  }
}

}  // namespace

RecipeRow row() {
  RecipeRow row;
  row.name = "stylegan1";
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<StyleGan1>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.wants_labels = [](const Config& config) {
    return config.get("stylegan1.conditional").get<bool>();
  };
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::stylegan1
