// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "gan/recipe.h"

namespace gantrain {

// Sizes of a progressive network's stages: 4, 8, ... resolution.
std::vector<int64_t> levels_up_to(int64_t resolution);

// Pixels of the stage to be drawn, the last of `levels` where the drawing names none. Throws
// UserError(kUsage) unless the level is one of them and alpha is in [0, 1].
int64_t level_of(const SynthesisOptions& drawing, const std::vector<int64_t>& levels);

// How a network in that stage of its growth draws: its pixels and its newest layers' weight.
SynthesisOptions drawing_at(const Schedule& schedule, int64_t stage, int64_t images_seen);

}  // namespace gantrain
