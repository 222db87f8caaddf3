// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan1/recipe.h"

#include "core/torch.h"
#include "gan/alternating_phases.h"
#include "gan/latents.h"
#include "gan/scheduled_number.h"
#include "nn/style/noise.h"
#include "nn/style/styles.h"
#include "nn/style/w_average.h"
#include "ops/resample.h"
#include "recipes/stylegan1/convert.h"
#include "recipes/stylegan1/losses.h"
#include "recipes/stylegan1/networks.h"
#include "recipes/stylegan1/trained_generator.h"

namespace gantrain::stylegan1 {

using at::Tensor;

namespace {

Shape shape_of(const Options& o, const RecipeContext& c) {
  return {c.resolution.width, c.channels, static_cast<int64_t>(c.class_counts.size()), o.net};
}

class StyleGan1 final : public Recipe {
 public:
  explicit StyleGan1(const RecipeContext& context);

  std::vector<Player*> players() override { return {&G_player_, &D_player_}; }
  const std::vector<Phase>& phases() const override { return phases_; }
  std::vector<AllReducedSum> sums() override;
  std::vector<DeviceNumber*> numbers() override {
    return {&alpha_, &weights_.r1, &weights_.r2, &weights_.gp};
  }
  int64_t batch_group() const override { return D_net_->shape.mbstd_group_size; }
  const Schedule& schedule() const override { return schedule_; }
  void enter(const Stage& stage) override { stage_ = stage; }
  TensorNames names_in(const std::map<std::string, at::Tensor>& file,
                       const Player&) const override {
    return level_names_in(file, resolution_);
  }
  Json model() const override { return model_of(G_net_->shape); }

 private:
  Level level() const { return {stage_.resolution, alpha_}; }
  // Makes pictures of the present level, and adds the w that the mapping network computed to the
  // sums.
  Tensor pictures(const PhaseInput& in, const Tensor& labels, Statistics& sums);
  PhaseOutput d_loss(const PhaseInput& in);
  PhaseOutput g_loss(const PhaseInput& in);

  int64_t resolution_;
  Options options_;
  Schedule schedule_;
  Stage stage_;
  Latents latents_;
  std::shared_ptr<Generator> G_net_;
  std::shared_ptr<ProgressiveDiscriminator> D_net_;
  Player G_player_, D_player_;
  Handle<Mapping> mapping_;
  Handle<Synthesis> synthesis_;
  Handle<ProgressiveDiscriminator> D_;
  DeviceNumber alpha_;
  PenaltyWeights weights_;
  std::vector<Phase> phases_;
};

StyleGan1::StyleGan1(const RecipeContext& context)
    : resolution_(context.resolution.width),
      options_(context.config.read<Options>("")),
      schedule_(make_schedule(options_.schedule, context.resolution.width)),
      stage_(schedule_.stages().front()),
      latents_(options_.net.latent_size, context.class_counts, context.device),
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
      [this](const PhaseInput& in) { return d_loss(in); },
      G_player_,
      [this](const PhaseInput& in) { return g_loss(in); });
  const auto like = at::TensorOptions().device(context.device).dtype(context.dtype);
  alpha_ = {[this](int64_t images_seen) { return schedule_.alpha_at(images_seen); }, like};
  weights_ = {on_device(options_.loss.r1_gamma, like),
              on_device(options_.loss.r2_gamma, like),
              on_device(options_.loss.gp_weight, like)};
}

// The running average of w moves once for each phase, by the global mean of its w.
std::vector<AllReducedSum> StyleGan1::sums() {
  const auto move = [this](const Tensor& sum) {
    move_w_average_(G_net_->dlatent_avg, mean_of_w(sum), options_.w_avg_beta);
  };
  return {{"dlatent_avg", move, {G_net_->dlatent_avg}}};
}

// The w of each layer; two styles are mixed with probability options.mixing (sec. 3.1). The cut-off
// lies among the layers of the present stage.
Tensor StyleGan1::pictures(const PhaseInput& in, const Tensor& labels, Statistics& sums) {
  const Tensor w = mapping_(latents_.z(in), labels);
  sums.emplace_back("dlatent_avg", sum_of_w(w));
  const int64_t layers = layers_at(stage_.resolution);
  const Tensor cutoff = latents_.mixing_cutoff(in, options_.mixing, layers);
  Tensor ws = for_all_layers(w, G_net_->num_ws());
  if (!known_not_to_mix(cutoff, layers)) {
    const Tensor other = mapping_(latents_.z(in, 1), labels);
    ws = mix_styles(ws, for_all_layers(other, G_net_->num_ws()), cutoff);
  }
  return synthesis_(ws, level(), drawn_noise(in.key, in.samples, in.real.options()));
}

PhaseOutput StyleGan1::d_loss(const PhaseInput& in) {
  PhaseOutput out;
  // Generated pictures have the labels of the real ones, so that mixtures of both have one.
  const Tensor fake = [&] {
    const torch::NoGradGuard no_grad;
    return pictures(in, in.labels, out.sums);
  }();
  const Tensor real = fade_reals(in.real, alpha_);
  const Tensor t = options_.loss.kind == Loss::kWganGp
                       ? uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(real.options())
                       : Tensor();
  const DiscriminatorLoss d =
      stylegan1::d_loss([&](const Tensor& x) { return D_(x, level(), in.labels); },
                        real,
                        fake,
                        t,
                        weights_,
                        options_.loss,
                        resolution_);
  out.loss = d.loss;
  out.statistics = {{"Loss/scores/real", d.real_scores},
                    {"Loss/signs/real", d.real_scores.sign()},
                    {"Loss/scores/fake", d.fake_scores}};
  if (d.r1_penalty.defined()) out.statistics.emplace_back("Loss/r1_penalty", d.r1_penalty);
  if (d.r2_penalty.defined()) out.statistics.emplace_back("Loss/r2_penalty", d.r2_penalty);
  if (d.interpolated_norms.defined())
    out.statistics.emplace_back("Loss/gradient_norm", d.interpolated_norms);
  return out;
}

PhaseOutput StyleGan1::g_loss(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor labels = latents_.labels(in);
  const Tensor fake_scores = D_(pictures(in, labels, out.sums), level(), labels);
  out.statistics = {{"Loss/signs/fake", fake_scores.sign()}};
  out.loss = stylegan1::g_loss(fake_scores, options_.loss);
  return out;
}

}  // namespace

RecipeRow row() {
  RecipeRow row{facts()};
  row.make = [](const RecipeContext& context) -> std::unique_ptr<Recipe> {
    return std::make_unique<StyleGan1>(context);
  };
  row.make_generator = make_generator;
  row.recognises = recognises;
  row.import_official = import_official;
  return row;
}

}  // namespace gantrain::stylegan1
