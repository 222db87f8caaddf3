// SPDX-License-Identifier: Apache-2.0
#include "distributed/group.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

// What throw_first_objection() throws on a rank; "" where it returns.
std::string heard(Group& group, const std::string& objection) {
  try {
    throw_first_objection(objection, group, at::kCPU);
  } catch (const UserError& e) {
    return e.code() == Exit::kEnvironment ? e.what() : "another exit code";
  }
  return "";
}

std::shared_ptr<Group> join(const Rendezvous& r) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, 20);
}

}  // namespace

TEST_CASE("WithoutObjectionsAllRanksGoOn") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = join(r);
          return heard(*group, "").empty() ? 0 : 1;
        }) == 0);
}

TEST_CASE("EveryRankHearsTheObjectionOfTheLowest") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = join(r);
          const std::string mine = r.ranks.rank == 0 ? "" : "rank " + std::to_string(r.ranks.rank);
          return heard(*group, mine) == "rank 1" ? 0 : 1;
        }) == 0);
}

TEST_CASE("ALongObjectionIsCut") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = join(r);
          const std::string mine = r.ranks.rank == 1 ? std::string(5000, 'x') : "";
          return heard(*group, mine) == std::string(1023, 'x') ? 0 : 1;
        }) == 0);
}
