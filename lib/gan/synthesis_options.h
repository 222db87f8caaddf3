// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gan/schedule.h"

namespace gantrain {

enum class NoiseMode { kConst, kRandom, kNone };
constexpr std::array<std::string_view, 3> names(NoiseMode) { return {"const", "random", "none"}; }

// How a trained generator makes a picture. A generator ignores options for features that it does
// not have.
struct SynthesisOptions {
  double trunc = 1;  // psi: how far w stays from its mean (Karras et al. 2019, app. B)
  std::optional<int64_t> trunc_cutoff;  // number of layers that are truncated; none: all
  NoiseMode noise = NoiseMode::kConst;
  uint64_t noise_seed = 0;  // seed of random noise
  int64_t level = 0;        // pixels of a progressive network's stage; 0: full size
  double alpha = 1;         // weight of that stage's newest layers, in [0, 1]
  // Whether autograd records the computation, so that pictures can be differentiated with respect
  // to their latents.
  bool gradients = false;
};

// Returns the sizes in pixels of a progressive network's stages: 4, 8, ... resolution.
std::vector<int64_t> levels_up_to(int64_t resolution);

// Returns the pixels of the stage that the options ask for, or the last of `levels` where they name
// none. Throws UserError(kUsage) unless the level is one of `levels` and alpha lies in [0, 1].
int64_t level_of(const SynthesisOptions& options, const std::vector<int64_t>& levels);

// Returns the options with which a network makes pictures as in that stage of its growth: pictures
// of the stage's pixels, with the weight that its newest layers have after so many images.
SynthesisOptions options_at(const Schedule& schedule, int64_t stage, int64_t images_seen);

}  // namespace gantrain
