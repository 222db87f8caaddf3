// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// From now on LibTorch's warnings in this thread are shown only with -v. They are written for
// programmers, for example the warnings of DistributedDataParallel.
void quieten_libtorch();

}  // namespace gantrain
