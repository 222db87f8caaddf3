// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::dcgan {

enum class Norm { kBatch, kNone };
enum class Loss { kLogistic, kLeastSquares, kWassersteinGp };
constexpr std::array<std::string_view, 2> names(Norm) { return {"batch", "none"}; }
constexpr std::array<std::string_view, 3> names(Loss) { return {"dcgan", "lsgan", "wgan-gp"}; }

// Options of DCGAN (Radford, Metz & Chintala, ICLR 2016, arXiv:1511.06434). The defaults are the
// paper's. The paper does not give D's width; its default is that of the common implementations.
struct Options {
  int64_t latent = 100;     // fig. 1
  int64_t channels = 1024;  // fig. 1
  int64_t d_channels = 128;
  Norm norm = Norm::kBatch;    // sec. 3
  std::optional<Norm> g_norm;  // auto: norm
  std::optional<Norm> d_norm;
  Loss loss = Loss::kLogistic;
  Scheduled gp_weight = 10;  // Gulrajani et al. 2017, sec. 4
  AugmentChoice<DiffAugmentMode> augmentation;
  PlayerOptions G;  // sec. 4: Adam, 2e-4, beta1 .5
  PlayerOptions D;
};

template <class Field>
void fields(Options& o, Field&& field) {
  field("dcgan.latent", o.latent, between(1, 65536), "length of z");
  field("dcgan.channels",
        o.channels,
        between(1, 65536),
        "generator's feature maps at the start (4x4), halved at each doubling");
  field("dcgan.d_channels",
        o.d_channels,
        between(1, 65536),
        "discriminator's first feature maps, doubled at each halving");
  field("dcgan.norm", o.norm, "normalisation of both networks");
  field("dcgan.g_norm", o.g_norm, "generator's normalisation; auto: dcgan.norm");
  field("dcgan.d_norm", o.d_norm, "discriminator's normalisation; auto: dcgan.norm");
  field("dcgan.loss", o.loss, "Goodfellow 2014, Mao 2017 or Gulrajani 2017");
  field("dcgan.gp_weight", o.gp_weight, between(0, 1e6), "gradient penalty's weight (wgan-gp)");
  field("augment", o.augmentation, "augmentation of what D sees");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

// The facts of this recipe. Its networks can be built for a start size doubled 1 to 5 times
// (util/size.h): squares from 8 to 128 pixels, and rectangles.
const RecipeFacts& facts();

}  // namespace gantrain::dcgan
