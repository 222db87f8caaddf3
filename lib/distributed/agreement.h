// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "core/tensors.h"
#include "distributed/group.h"

namespace gantrain {

// Ends the run on all ranks if one of them objects: throws UserError(kEnvironment) with the
// objection of the lowest rank that has one, the same on every rank. `objection` is "" where this
// rank has none; only its first 1023 bytes are told. `device` is the group's. All ranks call it
// together.
void throw_first_objection(const std::string& objection, Group& group, c10::Device device);

// Returns rank 0's text on every rank. `device` is the group's. All ranks call it together.
std::string shared_text(const std::string& mine, Group& group, c10::Device device);

// Checks that all ranks hold the same bits in all tensors, by comparing checksums in one small
// all-reduce. If they do not, it throws UserError(kInternal) on every rank. The message names the
// first tensor that differs, by how much it differs from rank 0's, and the likely cause. Without
// `with_running_statistics`, tensors of the kind kRunningStatistic are not compared, because ranks
// may then have statistics of their own.
void check_equal(Group& group, const StateTensors& tensors, bool with_running_statistics);

}  // namespace gantrain
