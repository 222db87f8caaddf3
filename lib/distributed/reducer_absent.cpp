// SPDX-License-Identifier: Apache-2.0
// Stands in for reducer.cpp where the build's LibTorch has another c10d::Reducer: everything but
// wrapper and dynamic mode on several ranks works.
#include "distributed/gradient_sync.h"
#include "util/error.h"

namespace gantrain {

std::unique_ptr<BucketReducer> BucketReducer::make(const ReducerSettings& /*settings*/,
                                                   const Group& /*group*/,
                                                   const NamedTensors& /*parameters*/) {
  fail(
      Exit::kUsage,
      "this build's LibTorch has another c10d::Reducer than 2.11's: --ddp-mode wrapper and dynamic "
      "cannot be; use --ddp-mode flat, or build with LibTorch 2.11");
}

}  // namespace gantrain
