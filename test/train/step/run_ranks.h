// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/tensor_files.h"
#include "support/spawn_ranks.h"

namespace gantrain {

using TensorsByName = std::map<std::string, at::Tensor>;

// Runs `train` in `world` new processes and returns what rank 0's returned. All other ranks must
// have returned the same bits, which is checked.
TensorsByName result_of_ranks(int64_t world,
                              const std::function<NamedTensors(const Rendezvous&)>& train);

// Checks that both hold the same names and the same bits; names what differs.
void check_same_bits(const TensorsByName& got, const TensorsByName& expected);

}  // namespace gantrain
