// SPDX-License-Identifier: Apache-2.0
// Stands in for reducer.cpp where the build's LibTorch has another c10d::Reducer: everything but
// wrapper and dynamic mode on several ranks works.
#include "distributed/reducer.h"
#include "util/error.h"

namespace gantrain {

struct BucketReducer::Impl {};

BucketReducer::BucketReducer(const ReducerSettings& /*settings*/,
                             const Group& /*group*/,
                             const NamedTensors& /*parameters*/) {
  fail(
      Exit::kUsage,
      "this build's LibTorch has another c10d::Reducer than 2.11's: --ddp-mode wrapper and dynamic "
      "cannot be; use --ddp-mode flat, or build with LibTorch 2.11");
}

BucketReducer::~BucketReducer() = default;

void BucketReducer::arm(const std::vector<at::Tensor>& /*outputs*/) {}
void BucketReducer::reduce_late() {}
void BucketReducer::check_finished() {}
void BucketReducer::rebuild_buckets() {}
int64_t BucketReducer::buckets() const { return 0; }
bool BucketReducer::static_graph() const { return false; }

}  // namespace gantrain
