// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "export_config.h"

namespace gantrain {

// Returns the model card README.md: what the model is, what it was trained on as its run says it,
// numbers, how to use it. `config` is config_of(). The licence is left for the user to fill in.
// Throws UserError(kInput) where the run's config.json is broken.
std::string card_of(const ExportedModel& exported, const Json& config);

}  // namespace gantrain
