// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "augment/ada_options.h"
#include "gan/options.h"
#include "gan/recipe_facts.h"
#include "nn/style/shape.h"

namespace gantrain::stylegan2 {

// Adam with betas 0 and 0.99: Karras et al. 2020a, app. B.
inline PlayerOptions style_player(double lr) {
  PlayerOptions o;
  o.adam = {lr, 0, 0.99, 1e-8};
  return o;
}

// Options of StyleGAN2 (Karras et al. 2020a, arXiv:1912.04958), with the names of the authors'
// later code.
struct Options {
  bool automatic = false;
  bool conditional = false;
  int64_t z_dim = 512;
  int64_t w_dim = 512;
  int64_t map_depth = 8;
  int64_t channel_base = 32768;
  int64_t channel_max = 512;
  BlockArchitecture g_architecture = BlockArchitecture::kSkip;    // sec. 4.1
  BlockArchitecture d_architecture = BlockArchitecture::kResnet;  // sec. 4.1
  int64_t mbstd_group = 4;
  int64_t freeze_d = 0;      // Mo et al. 2020
  int64_t num_fp16_res = 4;  // Karras et al. 2020b, app. C
  double conv_clamp = 256;
  double w_avg_beta = 0.995;
  double mixing = 0.9;             // Karras et al. 2019, sec. 3.1
  std::optional<Scheduled> gamma;  // R1: Mescheder et al. 2018
  int64_t d_interval = 16;         // sec. 3.1
  Scheduled pl_weight = 2;         // sec. 3.2
  double pl_decay = 0.01;
  int64_t pl_shrink = 2;
  int64_t g_interval = 4;  // sec. 3.1
  std::optional<int64_t> max_micro_batch;
  AdaOptions ada;
  AugmentOptions augment;
  PlayerOptions G = style_player(0.002);
  PlayerOptions D = style_player(0.002);
};

template <class Field>
void network_fields(Options& o, Field&& field) {
  field("stylegan2.z_dim", o.z_dim, between(1, 65536), "length of z");
  field("stylegan2.w_dim", o.w_dim, between(1, 65536), "length of w");
  field("stylegan2.map_depth", o.map_depth, between(1, 64), "layers of the mapping network");
  field("stylegan2.channel_base",
        o.channel_base,
        between(1, 1e7),
        "feature maps at R pixels: channel_base / R, ... (R: the nominal resolution)");
  field("stylegan2.channel_max", o.channel_max, between(1, 65536), "... at most these");
  field("stylegan2.g_architecture", o.g_architecture, "generator's blocks");
  field("stylegan2.d_architecture", o.d_architecture, "discriminator's blocks");
  field("stylegan2.mbstd_group",
        o.mbstd_group,
        between(1, 4096),
        "samples of a minibatch standard deviation");
  field("stylegan2.w_avg_beta", o.w_avg_beta, between(0, 1), "decay of the mean of w");
}

template <class Field>
void fields(Options& o, Field&& field) {
  field("stylegan2.automatic",
        o.automatic,
        "choose batch, widths, rates and gamma by resolution and number of ranks");
  field("stylegan2.conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
  network_fields(o, field);
  field(
      "stylegan2.freeze_d", o.freeze_d, between(0, 1000), "D's first layers that stay as they are");
  field("stylegan2.num_fp16_res",
        o.num_fp16_res,
        between(0, 32),
        "with precision.mode=blocks: so many of the highest resolutions compute in fp16");
  field("stylegan2.conv_clamp",
        o.conv_clamp,
        between(1e-9, 1e30),
        "with fp16: activations are kept within +- this");
  field("stylegan2.mixing", o.mixing, between(0, 1), "probability of mixing two styles");
  field("stylegan2.gamma",
        o.gamma,
        between(0, 1e6),
        "weight of the R1 penalty; auto: 0.0002 x width x height / batch");
  field("stylegan2.d_interval", o.d_interval, at_least(1), "iterations between two R1 penalties");
  field("stylegan2.pl_weight", o.pl_weight, between(0, 1e6), "weight of the path length penalty");
  field("stylegan2.pl_decay", o.pl_decay, between(0, 1), "speed of the mean path length");
  field("stylegan2.pl_shrink",
        o.pl_shrink,
        between(1, 4096),
        "the path length penalty sees this fraction of a micro-batch");
  field("stylegan2.g_interval",
        o.g_interval,
        at_least(1),
        "iterations between two path length penalties");
  field("stylegan2.max_micro_batch",
        o.max_micro_batch,
        at_least(1),
        "on a CPU more images of a rank than these are accumulated, unless train.micro_batch is "
        "given");
  field("ada", o.ada, "adaptive discriminator augmentation");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The facts of this recipe. Its networks can be built for a start size doubled 1 to 8 times
// (util/doubled_size.h): squares from 8 to 1024 pixels, and rectangles. Its automatic values are
// gamma; with stylegan2.automatic the values that the code of Karras et al. 2020b chooses in its
// `auto` configuration, for rectangles those of a square of as many pixels; the transforms that the
// augmentation's pipe has; the micro-batch; and on GPUs, as in that code, half-precision blocks
// (precision.amp, precision.mode) and the loading threads (data.workers).
const RecipeFacts& facts();

}  // namespace gantrain::stylegan2
