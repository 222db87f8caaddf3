// SPDX-License-Identifier: Apache-2.0
#include "distributed/backend.h"
#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("CollectivesAndTheirBytesAreCounted") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const Traffic before = group->traffic();
          at::Tensor x = torch::ones({10}), y = torch::ones({3}, at::kDouble);
          group->sum_(x);
          group->broadcast_(y);
          const Traffic after = group->traffic();
          const bool right =
              after.collectives - before.collectives == 2 && after.bytes - before.bytes == 64;
          return right ? 0 : 1;
        }) == 0);
}

// A collective that passed by uncounted would be found out by nobody.
TEST_CASE("WhatIsNotCountedIsRefused") {
  struct Idle final : c10d::Backend {
    using Tensors = CountingBackend::Tensors;
    using Work = CountingBackend::Work;
    Idle() : Backend(0, 1) {}
    const std::string getBackendName() const override { return "idle"; }
    Work barrier(const c10d::BarrierOptions&) override { return {}; }
    Work reduce(Tensors&, const c10d::ReduceOptions&) override { return {}; }
  };
  CountingBackend backend(c10::make_intrusive<Idle>(), at::kCPU);
  CountingBackend::Tensors tensors = {torch::ones({2})};
  CHECK_THROWS_WITH(backend.barrier({}), Catch::Contains("Backend idle does not support barrier"));
  CHECK_THROWS_WITH(backend.reduce(tensors, {}),
                    Catch::Contains("Backend idle does not support reduce"));
  CHECK(backend.traffic().collectives == 0);
}

TEST_CASE("AReductionCostsTheBytesOfTheParametersInEveryMode") {
  const auto check = [](DdpMode mode, FindUnused find_unused) {
    CHECK(failed_ranks(2, [&](const Rendezvous& r) {
            DistOptions options;
            options.ddp_mode = mode;
            options.find_unused = find_unused;
            const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
            at::Tensor w = torch::ones({7, 3}, torch::requires_grad()),
                       b = torch::ones({3}, torch::requires_grad());
            const auto sync =
                GradientSync::create(options, group, "net", {{"", {{"w", w}, {"b", b}}}});
            for (int repeat = 0; repeat < 3; ++repeat) {
              w.mutable_grad() = b.mutable_grad() = at::Tensor();
              const Traffic before = group->traffic();
              for (const bool last : {false, true}) {  // two micro-batches, one reduction
                sync->begin(last);
                const at::Tensor y = torch::matmul(torch::ones({2, 7}), w) + b;
                sync->forwarded("", y);
                sync->expect_backward(y.square().sum()).backward();
              }
              sync->finish();
              const Traffic after = group->traffic();
              // The reducer's own search adds the bitmap of unused parameters: an int32 for each
              // of the two.
              const bool searches = mode != DdpMode::kFlat && find_unused == FindUnused::kOn;
              const int64_t bitmap = searches ? 2 * 4 : 0;
              if (after.bytes - before.bytes != (21 + 3) * 4 + bitmap) return 1;
              if (after.collectives - before.collectives < 1) return 1;
            }
            return 0;
          }) == 0);
  };
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat}) {
    check(mode, FindUnused::kAuto);
    check(mode, FindUnused::kOn);
  }
}
