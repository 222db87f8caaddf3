// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::stylegan1 {

// Sizes of the networks (Karras, Laine & Aila, CVPR 2019, arXiv:1812.04948, sec. 2 and app. C).
// Names are those of the official constructors.
struct NetworkOptions {
  int64_t latent_size = 512;
  int64_t dlatent_size = 512;
  int64_t mapping_fmaps = 512;
  int64_t mapping_layers = 8;
  double mapping_lrmul = 0.01;
  int64_t fmap_base = 8192;
  double fmap_decay = 1;
  int64_t fmap_max = 512;
};

template <class Field>
void fields(NetworkOptions& o, Field&& field) {
  field("latent_size", o.latent_size, between(1, 65536), "length of z");
  field("dlatent_size", o.dlatent_size, between(1, 65536), "length of w");
  field("mapping_fmaps", o.mapping_fmaps, between(1, 65536), "width of the mapping's layers");
  field("mapping_layers", o.mapping_layers, between(1, 64), "layers from z to w");
  field("mapping_lrmul", o.mapping_lrmul, between(1e-6, 1), "mapping's share of the learning rate");
  field("fmap_base", o.fmap_base, between(1, 1e6), "feature maps: min(base / 2^(decay s), max)");
  field("fmap_decay", o.fmap_decay, between(0, 4), "log2 of the maps' decrease at each doubling s");
  field("fmap_max", o.fmap_max, between(1, 65536), "most feature maps of any layer");
}

// kLogistic has the non-saturating loss of G. kSaturating has the same loss of D, and G's loss is
// eq. 1 of Goodfellow et al. 2014.
enum class Loss { kLogistic, kSaturating, kWganGp, kHinge };
constexpr std::array<std::string_view, 4> names(Loss) {
  return {"logistic", "saturating", "wgan-gp", "hinge"};
}

struct LossOptions {
  Loss kind = Loss::kLogistic;
  Scheduled r1_gamma = 10;  // app. C
  Scheduled r2_gamma = 0;
  Scheduled gp_weight = 10;  // for wgan-gp, as in PGGAN
  double gp_target = 1;
  double drift = 0.001;
  PenaltySize penalty_size = PenaltySize::kNative;
};

template <class Field>
void fields(LossOptions& o, Field&& field) {
  field("loss", o.kind, "Goodfellow 2014 (either form), Gulrajani 2017 or Lim & Ye 2017");
  field("r1_gamma", o.r1_gamma, between(0, 1e6), "logistic, saturating: gamma/2 |grad D(x)|^2");
  field("r2_gamma", o.r2_gamma, between(0, 1e6), "the same at generated pictures");
  field("gp_weight", o.gp_weight, between(0, 1e6), "wgan-gp: gradient penalty's weight");
  field("gp_target", o.gp_target, between(1e-3, 1e6), "norm that it pulls the gradient to");
  field("drift", o.drift, between(0, 1e6), "wgan-gp: weight of real pictures' squared scores");
  field("penalty_size",
        o.penalty_size,
        "penalties are of pictures at the size of the present level, or at full size");
}

struct Options {
  bool conditional = false;
  NetworkOptions net;
  LossOptions loss;
  double mixing = 0.9;  // sec. 3.1
  double w_avg_beta = 0.995;
  ScheduleOptions schedule = {.start = 8};  // app. C
  AugmentChoice<DiffAugmentMode> augmentation;
  PlayerOptions G = style_player(0.001);  // app. C
  PlayerOptions D = style_player(0.001);
};

template <class Field>
void fields(Options& o, Field&& field) {
  field("stylegan1.conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
  field("stylegan1", o.net, "networks");
  field("stylegan1", o.loss, "losses");
  field("stylegan1.mixing", o.mixing, between(0, 1), "probability of mixing two styles");
  field("stylegan1.w_avg_beta", o.w_avg_beta, between(0, 1), "decay of the mean of w");
  field("schedule", o.schedule, "progressive growing");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The facts of this recipe. Its automatic values are the schedule's tables, which choose_schedule()
// fills in (gan/schedule.h).
const RecipeFacts& facts();

}  // namespace gantrain::stylegan1
