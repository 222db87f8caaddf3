// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "augment/augment_options.h"
#include "gan/options.h"

namespace gantrain {

// Adam with betas 0 and 0.99: Karras et al. 2020a, app. B, and 2021, app. G.
inline PlayerOptions style_player(double lr) {
  PlayerOptions o;
  o.adam = {lr, 0, 0.99, 1e-8};
  return o;
}

// The options that style-based recipes with an augmented discriminator share (gan/style_recipe.h),
// with the names of Karras et al.'s code. The defaults that differ are each recipe's own.
struct StyleOptions {
  bool conditional = false;
  int64_t z_dim = 512;
  int64_t w_dim = 512;
  int64_t map_depth = 8;
  int64_t channel_base = 32768;
  int64_t channel_max = 512;
  int64_t mbstd_group = 4;
  int64_t freeze_d = 0;      // Mo et al. 2020
  int64_t num_fp16_res = 4;  // Karras et al. 2020b, app. C
  double conv_clamp = 256;
  double w_avg_beta = 0.995;
  std::optional<Scheduled> gamma;  // R1: Mescheder et al. 2018
  int64_t d_interval = 16;         // Karras et al. 2020a, sec. 3.1
  std::optional<int64_t> max_micro_batch;
  AdaOptions ada;
  AugmentOptions augment;
  PlayerOptions G = style_player(0.002);
  PlayerOptions D = style_player(0.002);
};

// Groups of their fields, in the order in which a recipe's keys stand; `recipe` begins their names.
template <class Field>
void label_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
}

template <class Field>
void latent_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".z_dim", o.z_dim, between(1, 65536), "length of z");
  field(recipe + ".w_dim", o.w_dim, between(1, 65536), "length of w");
  field(recipe + ".map_depth", o.map_depth, between(1, 64), "layers of the mapping network");
}

template <class Field>
void statistics_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".mbstd_group",
        o.mbstd_group,
        between(1, 4096),
        "samples of a minibatch standard deviation");
  field(recipe + ".w_avg_beta", o.w_avg_beta, between(0, 1), "decay of the mean of w");
}

// `half`: what num_fp16_res counts.
template <class Field>
void precision_fields(StyleOptions& o,
                      const std::string& recipe,
                      const std::string& half,
                      Field&& field) {
  field(
      recipe + ".freeze_d", o.freeze_d, between(0, 1000), "D's first layers that stay as they are");
  field(recipe + ".num_fp16_res",
        o.num_fp16_res,
        between(0, 32),
        "with precision.mode=blocks: so many of the highest " + half + " compute in fp16");
  field(recipe + ".conv_clamp",
        o.conv_clamp,
        between(1e-9, 1e30),
        "with fp16: activations are kept within +- this");
}

template <class Field>
void training_fields(StyleOptions& o, const std::string& recipe, Field&& field) {
  field(recipe + ".max_micro_batch",
        o.max_micro_batch,
        at_least(1),
        "on a CPU more images of a rank than these are accumulated, unless train.micro_batch is "
        "given");
  field("ada", o.ada, "adaptive discriminator augmentation");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

}  // namespace gantrain
