// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "distributed/group.h"

namespace gantrain {

// Returns a function that maps a tensor x to the sum of x over all ranks, on every rank. It is
// differentiable any number of times: since the output of every rank contains the input of every
// rank, the gradient of x is the sum of the output's gradients over all ranks. Each call, and each
// backward pass through a call, is one all-reduce, so all ranks must make the same calls and
// backward passes in the same order.
std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group);

}  // namespace gantrain
