// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "draw/requests.h"

namespace gantrain {

// Puts together what the flags of a verb that draws say of the model, and where it computes.
// Conditions that depend on the model (whether it has a w space, how many classes) are checked
// where it is loaded. Throws UserError in one line.
void decide_model(const std::string& verb, ModelRequest& request);

}  // namespace gantrain
