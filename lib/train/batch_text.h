// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.h"
#include "train/plan.h"

namespace gantrain {

// Says how a batch is cut, and how for the players that have an accumulation of their own: "batch
// 16 = 2 ranks x 8; D: 4 accumulated x 2". Throws UserError(kUsage) as plan_player does.
std::string batch_text(const BatchPlan& plan, const Config& config);

}  // namespace gantrain
