// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <memory>
#include <stdexcept>

#include "core/torch.h"
#include "distributed/group.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("OnlyTheGroupsOwnDeviceWillDo") {
  const c10::Device first(at::kCUDA, 0), second(at::kCUDA, 1), any(at::kCUDA);
  CHECK_NOTHROW(check_on_group_device("all-reduce", first, first));
  CHECK_NOTHROW(check_on_group_device("all-reduce", first, any));
  CHECK_NOTHROW(check_on_group_device("all-reduce", at::kCPU, at::kCPU));
  CHECK_THROWS_AS(check_on_group_device("all-reduce", second, first), std::logic_error);
  CHECK_THROWS_WITH(check_on_group_device("broadcast", at::kCPU, first),
                    "broadcast: a tensor on cpu in a group on cuda:0");
}

// c10d would have said that it has no backend for the device, as if a peer had died.
TEST_CASE("ATensorOfAnotherDeviceIsAMistakeOfTheProgramAndIsNamed") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          at::Tensor wrong = torch::ones({2}, at::kMeta), right = torch::ones({2});
          int refused = 0;
          for (const bool sums : {true, false}) {
            try {
              sums ? group->sum_(wrong) : group->broadcast_(wrong);
            } catch (const std::logic_error& e) {
              const std::string text = e.what();
              refused += text.find("a tensor on meta in a group on cpu") != std::string::npos;
            }
          }
          group->sum_(right);  // nothing was sent of what was refused
          return refused == 2 && right[0].item<float>() == 2 ? 0 : 1;
        }) == 0);
}

TEST_CASE("TheLauncherReadsWhichCollectivesARankHasEntered") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
          const auto trace = std::make_unique<RankTrace>();
          trace_collectives(*group, *trace);
          if (trace->entered() != group->traffic().collectives) return 1;
          const int64_t before = trace->entered();
          at::Tensor x = torch::ones({2});
          trace->set_phase("D backward");
          group->sum_(x, "a test");
          group->broadcast_(x);
          if (trace->entered() != before + 2 || device_of(*group) != at::kCPU) return 2;
          const std::vector<Collective> all = trace->collectives();
          if (all.size() != 2 || all[0].number != before + 1) return 3;
          if (all[0].purpose != "a test" || all[0].bytes != 8 || all[0].phase != "D backward")
            return 4;
          // The thread that made it may still be at its last words.
          const auto ended = [&] { return trace->collectives()[1].ended_ns > 0; };
          for (int i = 0; i < 6000 && !ended(); ++i) usleep(10'000);
          return ended() && all[1].what == "broadcast" && all[1].begun_ns > 0 ? 0 : 5;
        }) == 0);
}

TEST_CASE("OneRankSendsNothingAndCountsNothing") {
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 5);
  const auto trace = std::make_unique<RankTrace>();
  trace_collectives(*group, *trace);
  CHECK(trace->entered() == 0);
  CHECK(device_of(*group) == at::kCPU);
}
