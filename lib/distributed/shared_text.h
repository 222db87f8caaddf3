// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "distributed/group.h"

namespace gantrain {

// Returns rank 0's text on every rank. `device` is the group's. All ranks call it together.
std::string shared_text(const std::string& mine, Group& group, c10::Device device);

}  // namespace gantrain
