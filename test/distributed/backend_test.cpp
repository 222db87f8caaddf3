// SPDX-License-Identifier: Apache-2.0
#include "distributed/backend.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "core/torch.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

namespace {
const BackendSettings kAlone{.ranks = {}, .timeout = std::chrono::milliseconds(5000)};
}  // namespace

TEST_CASE("AGlooGroupOfOneAddsUp") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group = make_process_group(BackendKind::kGloo, store, kAlone, at::kCPU);
  std::vector<at::Tensor> tensors = {torch::ones({3})};
  group->allreduce(tensors)->wait();
  CHECK(tensors[0].sum().item<float>() == 3);
}

TEST_CASE("NcclWithoutItsLibraryIsAnEnvironmentError") {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  CHECK_THROWS_AS(make_process_group(BackendKind::kNccl, store, kAlone, at::kCUDA), UserError);
}
