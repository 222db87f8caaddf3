// SPDX-License-Identifier: Apache-2.0
#include "gan/growing_recipe.h"

#include "core/torch.h"
#include "ops/resample.h"

namespace gantrain {

GrowingRecipe::GrowingRecipe(const RecipeContext& context,
                             const ScheduleOptions& schedule,
                             Player G,
                             const DiscriminatorShape& discriminator,
                             const PlayerOptions& D,
                             const Latents& latents)
    : resolution_(context.resolution.width),
      schedule_(make_schedule(schedule, context.resolution.width)),
      stage_(schedule_.stages().front()),
      latents_(latents),
      D_net_(std::make_shared<ProgressiveDiscriminator>(discriminator)),
      G_player_(std::move(G)),
      D_player_{"D", D_net_, D},
      D_(D_player_, D_net_),
      augmentation_(context.config.read<AugmentChoice<DiffAugmentMode>>()) {
  initialise_equalised(*D_net_, "D", context.seed);
  begin_training({&G_player_, &D_player_}, context);
  follow_stage(D_player_, *D_net_, stage_);
  phases_ = alternating_phases(
      D_player_,
      [this](const PhaseInput& in) { return d_loss(in); },
      G_player_,
      [this](const PhaseInput& in) { return g_loss(in); });
  alpha_ = {[this](int64_t images_seen) { return schedule_.alpha_at(images_seen); },
            context.tensors()};
}

// D's scores of pictures of the level, augmented.
Tensor GrowingRecipe::scores(const PhaseInput& in,
                             Shown kind,
                             const Tensor& x,
                             const Tensor& labels) {
  return D_(seen_by_D(augmentation_, x, kind, in.key, in.samples), level(), labels);
}

// Generated pictures have the labels of the real ones, so that mixtures of both have one.
PhaseOutput GrowingRecipe::d_loss(const PhaseInput& in) {
  PhaseOutput out;
  const Tensor fake = without_graph([&] { return pictures(in, in.labels, out.sums); });
  std::vector<Shown> kinds = {Shown::kBetween, Shown::kFake, Shown::kReal};  // the first one last
  const auto D = [&](const Tensor& x) {
    const Shown kind = kinds.back();
    kinds.pop_back();
    return scores(in, kind, x, in.labels);
  };
  const DiscriminatorLoss d = loss_of_D(D, fade_reals(in.real, alpha_), fake, in);
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

PhaseOutput GrowingRecipe::g_loss(const PhaseInput& in) {
  Statistics sums;
  const Tensor labels = latents_.labels(in);
  const Tensor fake = pictures(in, labels, sums);
  PhaseOutput out = loss_of_G(scores(in, Shown::kFake, fake, labels));
  out.sums = std::move(sums);
  return out;
}

Tensor GrowingRecipe::places(const PhaseInput& in) const {
  return uniform(in.key.of_phase(0), "gp", in.samples, {1, 1, 1}).to(in.real.options());
}

double gradient_scale(PenaltySize size, int64_t pixels, int64_t resolution) {
  if (size == PenaltySize::kNative) return 1;
  return static_cast<double>(pixels) / static_cast<double>(resolution);
}

ModelContent content_of_official(const torch::nn::Module& net,
                                 Json model,
                                 const TensorMap& tensors,
                                 const std::string& source,
                                 const std::string& group) {
  load_into(net, tensors, source);
  ModelContent content{std::move(model), {}};
  for (const auto& [name, value] : state_of(net)) content.tensors[name] = value.detach();
  for (const auto& [name, value] : tensors) {
    // "lod" is the official networks' growth level, a counter that is no weight.
    if (name == "lod" || name == "synthesis.lod" || name == "D.lod") continue;
    if (name.starts_with("D.")) {
      content.tensors[name] = value;
    } else if (content.tensors.count(name) == 0) {
      refuse_file(source, "tensor {}{} is none of this network's", group, name);
    }
  }
  return content;
}

}  // namespace gantrain
