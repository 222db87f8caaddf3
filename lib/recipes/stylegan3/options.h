// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::stylegan3 {

// The two configurations of Karras et al. 2021, fig. 3: equivariant to translation (T), and to
// rotation too (R).
enum class Equivariance { kT, kR };
constexpr std::array<std::string_view, 2> names(Equivariance) { return {"t", "r"}; }

// Options of StyleGAN3 (Karras et al. 2021, arXiv:2106.12423), with the names of the authors' code.
struct Options : StyleOptions {
  Options() {
    map_depth = 2;
    w_avg_beta = 0.998;
    ada.mode = Augmentation::kAda;  // D is augmented from the start
    G = style_player(0.0025);
  }

  Equivariance config = Equivariance::kT;
  // Feature maps of D; G of R has twice channel_base and channel_max.
  std::optional<int64_t> d_channel_base, d_channel_max;
  int64_t num_layers = 14;
  int64_t num_critical = 2;
  int64_t margin = 10;
  Kimg magnitude_half_life{20'000};  // app. F.1
  std::optional<double> blur_sigma;  // app. G
  std::optional<Kimg> blur_fade;
};

template <class Field>
void network_fields(Options& o, Field&& field) {
  const std::string own = "stylegan3";
  field("stylegan3.config", o.config, "t: pictures move with translations; r: and with rotations");
  latent_fields(o, own, field);
  field("stylegan3.channel_base",
        o.channel_base,
        between(1, 1e7),
        "feature maps of a layer: in G half of this / its cutoff frequency (config r: twice as "
        "many), in "
        "D this / its pixels a side");
  field("stylegan3.channel_max",
        o.channel_max,
        between(1, 65536),
        "largest number of feature maps of a layer");
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
        "how many of the last of them are critically sampled: cutoff at half the sampling rate");
  field("stylegan3.margin", o.margin, between(0, 64), "pixels around the pictures inside G");
  statistics_fields(o, own, field);
  field("stylegan3.magnitude_half_life",
        o.magnitude_half_life,
        between(0.001, 1e9),
        "kimg after which an input magnitude counts half in its running mean");
}

template <class Field>
void fields(Options& o, Field&& field) {
  const std::string own = "stylegan3";
  label_fields(o, own, field);
  network_fields(o, field);
  precision_fields(o, own, "rates", field);
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
  training_fields(o, own, field);
}

// The facts of this recipe. Pictures are squares of 8 to 1024 pixels, powers of two. Its automatic
// values are gamma, the generator's average and the blur, by resolution, batch and configuration;
// the transforms that the augmentation's pipe has; the micro-batch; what differs in a run that
// starts from another model's weights (run.init_from); and on GPUs, as in the authors' code,
// half-precision blocks and the loading threads.
const RecipeFacts& facts();

}  // namespace gantrain::stylegan3
