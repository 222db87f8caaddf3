// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "augment/ada_options.h"
#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::stylegan3 {

// The two configurations of Karras et al. 2021, fig. 3: equivariant to translation (T), and to
// rotation too (R).
enum class Equivariance { kT, kR };
constexpr std::array<std::string_view, 2> names(Equivariance) { return {"t", "r"}; }

// Adam with betas 0 and 0.99: Karras et al. 2021, app. G.
inline PlayerOptions style_player(double lr) {
  PlayerOptions o;
  o.adam = {lr, 0, 0.99, 1e-8};
  return o;
}

// D is augmented from the start.
inline AdaOptions adaptive() {
  AdaOptions o;
  o.mode = Augmentation::kAda;
  return o;
}

// Options of StyleGAN3 (Karras et al. 2021, arXiv:2106.12423), with the names of the authors' code.
struct Options {
  Equivariance config = Equivariance::kT;
  bool conditional = false;
  int64_t z_dim = 512;
  int64_t w_dim = 512;
  int64_t map_depth = 2;
  int64_t channel_base = 32768;  // G of R: twice as many
  int64_t channel_max = 512;     // likewise
  std::optional<int64_t> d_channel_base, d_channel_max;
  int64_t num_layers = 14;
  int64_t num_critical = 2;
  int64_t margin = 10;
  int64_t mbstd_group = 4;
  int64_t freeze_d = 0;      // Mo et al. 2020
  int64_t num_fp16_res = 4;  // Karras et al. 2020b, app. C
  double conv_clamp = 256;
  double w_avg_beta = 0.998;
  Kimg magnitude_half_life{20'000};  // app. F.1
  std::optional<Scheduled> gamma;    // R1: Mescheder et al. 2018
  int64_t d_interval = 16;
  std::optional<double> blur_sigma;  // app. G
  std::optional<Kimg> blur_fade;
  std::optional<int64_t> max_micro_batch;
  AdaOptions ada = adaptive();
  AugmentOptions augment;
  PlayerOptions G = style_player(0.0025);
  PlayerOptions D = style_player(0.002);
};

template <class Field>
void network_fields(Options& o, Field&& field) {
  field("stylegan3.config", o.config, "t: pictures move with translations; r: and with rotations");
  field("stylegan3.z_dim", o.z_dim, between(1, 65536), "length of z");
  field("stylegan3.w_dim", o.w_dim, between(1, 65536), "length of w");
  field("stylegan3.map_depth", o.map_depth, between(1, 64), "layers of the mapping network");
  field(
      "stylegan3.channel_base",
      o.channel_base,
      between(1, 1e7),
      "feature maps: half of this over the cutoff in G, this over the pixels in D; G of r: twice");
  field("stylegan3.channel_max", o.channel_max, between(1, 65536), "... at most these");
  field("stylegan3.d_channel_base",
        o.d_channel_base,
        between(1, 1e7),
        "the same for D alone; auto: stylegan3.channel_base");
  field("stylegan3.d_channel_max",
        o.d_channel_max,
        between(1, 65536),
        "the same for D alone; auto: stylegan3.channel_max");
  field("stylegan3.num_layers",
        o.num_layers,
        between(3, 64),
        "layers of the synthesis network, without toRGB");
  field("stylegan3.num_critical",
        o.num_critical,
        between(1, 63),
        "so many of them, the last ones, sample critically");
  field("stylegan3.margin", o.margin, between(0, 64), "pixels around the pictures inside G");
  field("stylegan3.mbstd_group",
        o.mbstd_group,
        between(1, 4096),
        "samples of a minibatch standard deviation");
  field("stylegan3.w_avg_beta", o.w_avg_beta, between(0, 1), "decay of the mean of w");
  field("stylegan3.magnitude_half_life",
        o.magnitude_half_life,
        between(0.001, 1e9),
        "kimg after which an input magnitude counts half in its running mean");
}

template <class Field>
void fields(Options& o, Field&& field) {
  field("stylegan3.conditional",
        o.conditional,
        "with data.cond=auto: use the labels that the data has");
  network_fields(o, field);
  field(
      "stylegan3.freeze_d", o.freeze_d, between(0, 1000), "D's first layers that stay as they are");
  field("stylegan3.num_fp16_res",
        o.num_fp16_res,
        between(0, 32),
        "with precision.mode=blocks: so many of the highest rates compute in fp16");
  field("stylegan3.conv_clamp",
        o.conv_clamp,
        between(1e-9, 1e30),
        "with fp16: activations are kept within +- this");
  field("stylegan3.gamma",
        o.gamma,
        between(0, 1e6),
        "weight of the R1 penalty; auto: width x height / (1024 x batch)");
  field("stylegan3.d_interval", o.d_interval, at_least(1), "iterations between two R1 penalties");
  field("stylegan3.blur_sigma",
        o.blur_sigma,
        between(0, 100),
        "blur of D's pictures at the start, pixels; auto: 10 with config r, else 0");
  field("stylegan3.blur_fade",
        o.blur_fade,
        between(0, 1e9),
        "kimg over which that blur goes away; auto: 6.25 x batch");
  field("stylegan3.max_micro_batch",
        o.max_micro_batch,
        at_least(1),
        "on a CPU more images of a rank than these are accumulated, unless train.micro_batch is "
        "given");
  field("ada", o.ada, "adaptive discriminator augmentation");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The facts of this recipe. Pictures are squares of 8 to 1024 pixels, powers of two. Its automatic
// values are gamma, the generator's average and the blur, by resolution, batch and configuration;
// the transforms that the augmentation's pipe has; the micro-batch; what differs in a run that
// starts from another model's weights (run.init_from); and on GPUs, as in the authors' code,
// half-precision blocks and the loading threads.
const RecipeFacts& facts();

}  // namespace gantrain::stylegan3
