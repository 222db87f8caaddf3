// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "core/tensors.h"

namespace gantrain {

// What the draws of a phase depend on beside their purpose and their samples. The numbers lie on
// the device, so that a step can be replayed there with the next iteration's key.
struct DrawKey {
  at::Tensor numbers;  // int64 [2] on the device of the draws: seed, iteration
  int64_t phase = 0;   // tells phases of one iteration apart where they must not share their draws

  DrawKey of_phase(int64_t other) const { return {numbers, other}; }
};
DrawKey make_draw_key(uint64_t seed, int64_t iteration, int64_t phase, at::Device device);
// The key of another iteration, in place. Nothing is copied between host and device.
void set_iteration_(const DrawKey& key, int64_t iteration);

// Draws as operators: results are on the key's device, and nothing waits for it. The same seed
// gives the numbers of Stream (core/random.h) on every device, up to the last bits of log, sin and
// cos.

// [samples.count, shape...] float32: N(0, 1), or uniform in [0, 1).
at::Tensor normal(const DrawKey& key,
                  std::string_view purpose,
                  const Samples& samples,
                  at::IntArrayRef shape);
at::Tensor uniform(const DrawKey& key,
                   std::string_view purpose,
                   const Samples& samples,
                   at::IntArrayRef shape);

// A class for each sample, int64 [samples.count], with the frequencies whose running sums are
// `first_above` (int64 [classes] on the key's device; `total` is its last entry).
at::Tensor drawn_classes(const DrawKey& key,
                         std::string_view purpose,
                         const Samples& samples,
                         const at::Tensor& first_above,
                         int64_t total);

// One whole number for the whole batch, int64 []: with that probability one of 1 to layers - 1, all
// equally likely, else `layers`. The cut of style mixing (Karras et al. 2019, sec. 3.1).
at::Tensor drawn_cutoff(const DrawKey& key,
                        std::string_view purpose,
                        double probability,
                        int64_t layers);

}  // namespace gantrain
