// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "distributed/group.h"

namespace gantrain {

// x -> its sum over ranks, on every rank; differentiable any number of times (the gradient is the
// sum over ranks of gradients: every rank's output has every rank's input in it). Each call and
// each backward through it is one all-reduce, so all ranks must make the same ones in the same
// order.
std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group);

}  // namespace gantrain
