// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "distributed/group.h"

namespace gantrain {

// Ends the run on all ranks if one of them objects: throws UserError(kEnvironment) with the
// objection of the lowest rank that has one, the same on every rank. `objection` is "" where this
// rank has none; only its first 1023 bytes are told. `device` is the group's. All ranks call it
// together.
void throw_first_objection(const std::string& objection, Group& group, c10::Device device);

}  // namespace gantrain
