// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"
#include "nn/style/shape.h"

namespace gantrain::stylegan2 {

// Options of StyleGAN2 (Karras et al. 2020a, arXiv:1912.04958), with the names of the authors'
// later code.
struct Options : StyleOptions {
  bool automatic = false;
  BlockArchitecture g_architecture = BlockArchitecture::kSkip;    // sec. 4.1
  BlockArchitecture d_architecture = BlockArchitecture::kResnet;  // sec. 4.1
  double mixing = 0.9;                                            // Karras et al. 2019, sec. 3.1
  Scheduled pl_weight = 2;                                        // sec. 3.2
  double pl_decay = 0.01;
  int64_t pl_shrink = 2;
  int64_t g_interval = 4;  // sec. 3.1
};

template <class Field>
void fields(Options& o, Field&& field) {
  const std::string own = "stylegan2";
  field("stylegan2.automatic",
        o.automatic,
        "choose batch, widths, rates and gamma by resolution and number of ranks");
  label_fields(o, own, field);
  latent_fields(o, own, field);
  field("stylegan2.channel_base",
        o.channel_base,
        between(1, 1e7),
        "feature maps at R pixels: channel_base / R, ... (R: the nominal resolution)");
  field("stylegan2.channel_max",
        o.channel_max,
        between(1, 65536),
        "largest number of feature maps of a layer");
  field("stylegan2.g_architecture", o.g_architecture, "generator's blocks");
  field("stylegan2.d_architecture", o.d_architecture, "discriminator's blocks");
  statistics_fields(o, own, field);
  precision_fields(o, own, "resolutions", field);
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
  training_fields(o, own, field);
}

// The facts of this recipe. Its networks can be built for a start size doubled 1 to 8 times
// (util/size.h): squares from 8 to 1024 pixels, and rectangles. Its automatic values are
// gamma; with stylegan2.automatic the values that the code of Karras et al. 2020b chooses in its
// `auto` configuration, for rectangles those of a square of as many pixels; the transforms that the
// augmentation's pipe has; the micro-batch; and on GPUs, as in that code, half-precision blocks
// (precision.amp, precision.mode) and the loading threads (data.workers).
const RecipeFacts& facts();

}  // namespace gantrain::stylegan2
