// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

// LibTorch's warnings speak to programmers (of DistributedDataParallel, for instance): from now on
// this thread's are shown with -v alone.
void quieten_libtorch();

}  // namespace gantrain
