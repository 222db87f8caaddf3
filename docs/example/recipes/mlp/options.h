// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gan/options.h"
#include "gan/recipe_facts.h"

namespace gantrain::mlp {

// The first GAN: fully connected networks (Goodfellow et al., NeurIPS 2014, arXiv:1406.2661).
struct Options {
  int64_t latent = 64;
  int64_t width = 256;
  PlayerOptions G;  // Adam, 2e-4, beta1 0.5
  PlayerOptions D;
};

template <class Field>
void fields(Options& o, Field&& field) {
  field("mlp.latent", o.latent, between(1, 65536), "length of z");
  field("mlp.width", o.width, between(1, 65536), "units of each hidden layer");
  field("G", o.G, "generator");
  field("D", o.D, "discriminator");
}

const RecipeFacts& facts();

}  // namespace gantrain::mlp
