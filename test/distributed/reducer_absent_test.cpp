// SPDX-License-Identifier: Apache-2.0
// Linked with reducer_absent.cpp in place of reducer.cpp.
#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

std::unique_ptr<GradientSync> make(const Rendezvous& r, DdpMode mode, const at::Tensor& w) {
  DistOptions options;
  options.ddp_mode = mode;
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  return GradientSync::create(options, group, "net", {{"", {{"w", w}}}});
}

}  // namespace

TEST_CASE("WithoutAReducerTheModesThatNeedItSayWhatToDo") {
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic}) {
    CHECK(failed_ranks(2, [mode](const Rendezvous& r) {
            try {
              make(r, mode, torch::ones({3}, torch::requires_grad()));
            } catch (const UserError& e) {
              const std::string text = e.what();
              const bool says = text.find("use --ddp-mode flat") != std::string::npos &&
                                text.find("LibTorch 2.11") != std::string::npos;
              return says && e.code() == Exit::kUsage ? 0 : 1;
            }
            return 2;
          }) == 0);
  }
}

TEST_CASE("WithoutAReducerFlatModeReduces") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const at::Tensor w = torch::ones({3}, torch::requires_grad());
          const auto sync = make(r, DdpMode::kFlat, w);
          sync->begin(true);
          sync->expect_backward((w * static_cast<double>(r.ranks.rank + 1)).sum()).backward();
          sync->finish();
          return w.grad()[0].item<float>() == 1.5F ? 0 : 1;
        }) == 0);
}

TEST_CASE("WithoutAReducerOneRankTrainsInEveryMode") {
  const at::Tensor w = torch::ones({3}, torch::requires_grad());
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat})
    CHECK(make({}, mode, w)->buckets() == 0);
}
