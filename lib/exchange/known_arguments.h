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

// Whether the kernels are fused changes no value, how memory is laid out neither.
bool has_no_effect(const std::string& key);

}  // namespace gantrain
