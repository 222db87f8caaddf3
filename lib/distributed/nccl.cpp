// SPDX-License-Identifier: Apache-2.0
// Part of the CUDA library, with the kernels of lib/ops: the one place that names NCCL.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/backend.h"

extern "C" c10d::Backend* gantrain_make_nccl(c10d::Store* store,
                                             const gantrain::BackendSettings& settings) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = settings.timeout;
  const auto held = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(held,
                                                     static_cast<int>(settings.ranks.rank),
                                                     static_cast<int>(settings.ranks.world),
                                                     options)
      .release();
}
