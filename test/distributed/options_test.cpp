// SPDX-License-Identifier: Apache-2.0
#include "distributed/options.h"

#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("TheBackendFollowsTheTable") {
  using B = BackendKind;
  CHECK(choose_backend(B::kAuto, true, true) == B::kNccl);
  CHECK(choose_backend(B::kAuto, true, false) == B::kGloo);
  CHECK(choose_backend(B::kAuto, false, true) == B::kGloo);
  CHECK(choose_backend(B::kAuto, false, false) == B::kGloo);
  CHECK(choose_backend(B::kGloo, true, true) == B::kGloo);
  CHECK(choose_backend(B::kNccl, true, true) == B::kNccl);
  for (const bool on_gpu : {false, true}) {
    try {
      choose_backend(B::kNccl, on_gpu, false);
      FAIL("nccl was accepted");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kEnvironment);
    }
  }
}

TEST_CASE("OptionsThatExcludeEachOtherAreRefused") {
  const auto message = [](const DistOptions& o, int64_t ranks, bool reducer) -> std::string {
    try {
      check_options(o, ranks, reducer);
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kUsage);
      return e.what();
    }
    return "";
  };
  DistOptions o;
  CHECK(message(o, 2, true).empty());
  CHECK(message(o, 1, false).empty());
  CHECK_THAT(message(o, 2, false), Catch::StartsWith("--ddp-mode dynamic: "));
  CHECK_THAT(message(o, 2, false), Catch::Contains("use --ddp-mode flat"));
  o.static_graph = true;
  CHECK(message(o, 2, true).empty());
  o.ddp_scope = DdpScope::kWhole;
  CHECK_THAT(message(o, 2, true), Catch::StartsWith("dist.static_graph = on: "));
  o.ddp_mode = DdpMode::kFlat;
  CHECK_THAT(message(o, 2, true), Catch::StartsWith("--ddp-scope whole "));
  o.ddp_scope = DdpScope::kNet;
  CHECK_THAT(message(o, 2, true), Catch::StartsWith("dist.static_graph = on: "));
  o.static_graph = false;
  CHECK(message(o, 2, false).empty());
}

TEST_CASE("ThisBuildHasTheReducerThatItWasWrittenFor") { CHECK(has_reducer()); }

TEST_CASE("ASmallSharedMemoryIsToldWhereGpusExchangeThroughIt") {
  const int64_t small = int64_t{64} << 20;
  CHECK_THAT(shared_memory_text(small, 2, /*peers_reach=*/false),
             Catch::Contains("/dev/shm has 64 MB") && Catch::Contains("--shm-size=1g"));
  CHECK(shared_memory_text(small, 2, /*peers_reach=*/true).empty());
  CHECK(shared_memory_text(small, 1, false).empty());
  CHECK(shared_memory_text(int64_t{1} << 30, 8, false).empty());
}
