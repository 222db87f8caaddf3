// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::r3gan {

// A number that follows half a cosine over the first 20 million images, the paper's burn-in for
// CIFAR-10 and FFHQ (Huang et al. 2024, app. E).
inline Scheduled burn_in(double from, double to) {
  return {from, to, Kimg{20'000'000}, RampShape::kCosine};
}

inline PlayerOptions player() {
  PlayerOptions o;
  o.adam = {burn_in(2e-4, 5e-5), 0, burn_in(0.9, 0.99), 1e-8};
  return o;
}

inline AugmentOptions transforms() {
  AugmentOptions o;
  o.brightness = o.contrast = o.lumaflip = o.hue = o.saturation = 0.5;
  o.cutout = 1;
  return o;
}

// Options of R3GAN (Huang, Gokaslan, Kuleshov & Tompkin, NeurIPS 2024, arXiv:2501.05441). The
// defaults are the paper's for FFHQ.
struct Options {
  bool conditional = false;
  int64_t z_dim = 64;
  int64_t embedding = 64;
  std::string width = "auto";
  std::string cardinality = "auto";
  std::string blocks = "2";        // sec. 3
  int64_t expansion = 2;           // sec. 3: inverted bottleneck
  int64_t num_fp16_res = 4;        // app. E
  std::optional<Scheduled> gamma;  // eq. 3
  int64_t penalty_interval = 1;    // sec. 2: at every step
  AugmentChoice<AugmentMode> augmentation;
  // Karras et al. 2020b, with a strength that grows with the images seen instead of following D.
  AdaOptions ada = {.mode = Augmentation::kFixed, .p = burn_in(0, 0.3), .adaptive = {}};
  AugmentOptions augment = transforms();
  PlayerOptions G = player();
  PlayerOptions D = player();
};

template <class Field>
void fields(Options& o, Field&& field) {
  field(
      "r3gan.conditional", o.conditional, "with data.cond=auto: use the labels that the data has");
  field("r3gan.z_dim", o.z_dim, between(1, 65536), "length of z");
  field("r3gan.embedding", o.embedding, between(1, 65536), "length of G's embedded class");
  field("r3gan.width",
        o.width,
        "feature maps by resolution: 64:384,128:192,768 (the last for all others); auto: 768 up to "
        "32 pixels, then halved at each doubling");
  field("r3gan.cardinality",
        o.cardinality,
        "groups of the 3x3 convolutions, likewise; auto: an eighth of the feature maps");
  field("r3gan.blocks", o.blocks, "residual blocks of each resolution, likewise");
  field("r3gan.expansion",
        o.expansion,
        between(1, 64),
        "feature maps inside a block, as a multiple of those outside");
  field("r3gan.num_fp16_res",
        o.num_fp16_res,
        between(0, 32),
        "with precision.mode=blocks: so many of the highest resolutions compute in bfloat16");
  field("r3gan.gamma",
        o.gamma,
        between(0, 1e6),
        "weight of the R1 and R2 penalties; auto: the paper's of FFHQ, by resolution");
  field("r3gan.penalty_interval",
        o.penalty_interval,
        at_least(1),
        "iterations between two penalties; 1: they are part of D's loss in every iteration");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("ada", o.ada, "adaptive discriminator augmentation, and of fixed strength");
  field("augment", o.augment, "its transforms");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// Feature maps, groups and blocks of the stages of 4, 8, ... nominal pixels: the start first.
struct StageSizes {
  std::vector<int64_t> widths, cardinalities, blocks;
};
// Reads r3gan.width, cardinality and blocks for networks that reach that nominal resolution. Throws
// UserError(kUsage) that names the key whose value does not fit.
StageSizes stage_sizes(const Options& options, int64_t nominal);

// The facts of this recipe. Its networks can be built for a start size doubled 1 to 8 times
// (util/size.h): squares from 8 to 1024 pixels, and rectangles. Its automatic values are
// widths, groups and gamma by resolution, the generator's average, and on GPUs bfloat16 stages and
// the loading threads.
const RecipeFacts& facts();

}  // namespace gantrain::r3gan
