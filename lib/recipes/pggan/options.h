// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::pggan {

// Sizes of the networks (Karras, Aila, Laine & Lehtinen, ICLR 2018, arXiv:1710.10196, table 2).
// Names are those of the official constructor.
struct NetworkOptions {
  int64_t latent_size = 512;
  int64_t fmap_base = 8192;
  double fmap_decay = 1;
  int64_t fmap_max = 512;
  bool fused_scale = true;
};

template <class Field>
void fields(NetworkOptions& o, Field&& field) {
  field("latent_size", o.latent_size, between(1, 65536), "length of z");
  field("fmap_base", o.fmap_base, between(1, 1e6), "feature maps: min(base / 2^(decay s), max)");
  field("fmap_decay", o.fmap_decay, between(0, 4), "log2 of the maps' decrease at each doubling s");
  field("fmap_max", o.fmap_max, between(1, 65536), "most feature maps of any layer");
  field("fused_scale",
        o.fused_scale,
        "resampling as part of the convolution; off: D's activation comes before its 2x2 mean");
}

// Options of the losses: Karras et al. 2018a, app. A.1.
struct LossOptions {
  Scheduled gp_weight = 10;
  double gp_target = 1;
  PenaltySize gp_size = PenaltySize::kNative;
  double drift = 0.001;
};

template <class Field>
void fields(LossOptions& o, Field&& field) {
  field("gp_weight", o.gp_weight, between(0, 1e6), "gradient penalty's weight");
  field("gp_target", o.gp_target, between(1e-3, 1e6), "norm that it pulls the gradient to");
  field("gp_size",
        o.gp_size,
        "the gradient penalty is of pictures at the size of the present level, or at full size");
  field("drift", o.drift, between(0, 1e6), "weight of the squared scores of real pictures");
}

struct Options {
  NetworkOptions net;
  LossOptions loss;
  ScheduleOptions schedule;
  AugmentChoice<DiffAugmentMode> augmentation;
  PlayerOptions G = style_player(0.001);  // sec. 6
  PlayerOptions D = style_player(0.001);
};

template <class Field>
void fields(Options& o, Field&& field) {
  field("pggan", o.net, "networks");
  field("pggan", o.loss, "losses");
  field("schedule", o.schedule, "progressive growing");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The facts of this recipe. Its automatic values are the schedule's tables, which choose_schedule()
// fills in (gan/schedule.h).
const RecipeFacts& facts();

}  // namespace gantrain::pggan
