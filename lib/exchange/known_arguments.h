// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/value.h"

namespace gantrain {

// The arguments that the constructors in official network pickles may have: keys with null for any
// value, or with the only value that gantrain has.
const Json& known_mapping();    // of mapping networks
const Json& known_synthesis();  // of StyleGAN2's synthesis network
const Json& known_stylegan3();  // of StyleGAN3's, and of its layers

// Returns the arguments that have an effect: how kernels are fused and memory is laid out changes
// no value, and None stands for the default of two. Throws UserError(kInput), which begins with
// `name` (file, network and argument), for keys and values that are not in `known`, one of the
// tables above.
Json known_arguments(const Json& arguments, const Json& known, const std::string& name);

}  // namespace gantrain
