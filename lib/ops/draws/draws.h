// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "core/tensors.h"

namespace gantrain {

// What the draws of a phase depend on, beside their purpose and their samples. Seed and iteration
// lie on the device, so that a captured step can be replayed with the next iteration's key.
struct DrawKey {
  at::Tensor numbers;  // int64 [2] on the device of the draws: seed, iteration
  int64_t phase = 0;   // tells phases of one iteration apart where they must not share their draws

  DrawKey of_phase(int64_t other) const { return {numbers, other}; }
};
DrawKey make_draw_key(uint64_t seed, int64_t iteration, int64_t phase, at::Device device);
// Sets the key to another iteration, in place. Nothing is copied between host and device.
void set_iteration_(const DrawKey& key, int64_t iteration);

// The draws below are operators: their results lie on the key's device, and they do not wait for
// it. The same seed gives the numbers of Stream (core/random.h) on every device; normals agree up
// to the last bits of log, sin and cos.

// Draw float32 [samples.count, shape...]: normal() from N(0, 1), uniform() from [0, 1).
using Draw = at::Tensor(const DrawKey& key,
                        std::string_view purpose,
                        const Samples& samples,
                        at::IntArrayRef shape);
Draw normal, uniform;

// Draws a class for each sample, int64 [samples.count]. A class is as likely as its share of the
// counts whose running sums are `first_above` (int64 [classes] on the key's device); `total` is the
// last of these sums.
at::Tensor drawn_classes(const DrawKey& key,
                         std::string_view purpose,
                         const Samples& samples,
                         const at::Tensor& first_above,
                         int64_t total);

// Draws one of `total` pictures of the data for each sample, all equally likely, int64
// [samples.count] from 0 to total - 1.
at::Tensor drawn_pictures(const DrawKey& key,
                          std::string_view purpose,
                          const Samples& samples,
                          int64_t total);

// Draws the first layer that takes the second style in style mixing (Karras et al. 2019, sec. 3.1):
// one number for the whole batch, int64 []. With `probability` it is one of 1 to layers - 1, all
// equally likely; otherwise it is `layers`, and nothing is mixed.
at::Tensor drawn_cutoff(const DrawKey& key,
                        std::string_view purpose,
                        double probability,
                        int64_t layers);

}  // namespace gantrain
