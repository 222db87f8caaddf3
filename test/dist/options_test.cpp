// SPDX-License-Identifier: Apache-2.0
#include "dist/options.h"

#include <catch2/catch.hpp>

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
