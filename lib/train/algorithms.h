// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// Says which algorithms LibTorch takes from now on, in the whole process. If deterministic, only
// those that give the same bits at every call; an operator that has none throws. Otherwise, on a
// GPU, the convolution that was the fastest for a shape when that shape first came. A rank calls
// this before its first computation on a GPU: cuBLAS takes its workspace, on which the bits depend,
// from the environment, which this sets unless the user has.
void choose_algorithms(bool deterministic);

}  // namespace gantrain
