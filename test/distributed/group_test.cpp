// SPDX-License-Identifier: Apache-2.0
#include "distributed/group.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"
#include "util/error.h"
#include "util/system.h"

using namespace gantrain;

namespace {
std::shared_ptr<Group> join_over_gloo(const Rendezvous& r, double timeout = 20) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, timeout);
}
}  // namespace

TEST_CASE("CollectivesGiveEveryRankTheSame") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          const auto group = join_over_gloo(r);
          const auto mine = static_cast<float>(r.ranks.rank + 1);
          at::Tensor sum = torch::full({4}, mine), first = sum.clone();
          group->sum_(sum);
          group->broadcast_(first);
          group->barrier();
          const bool right = sum[0].item<float>() == 6 && first[1].item<float>() == 1;
          return right ? 0 : 1;
        }) == 0);
}

TEST_CASE("WorkOfRankZeroMayTakeLongerThanTheTimeout") {
  CHECK(failed_ranks(3, [](const Rendezvous& r) {
          constexpr double kTimeout = 2;
          const auto group = join_over_gloo(r, kTimeout);
          int64_t signs = 0;
          for (const double seconds : {0.0, kTimeout + 0.5}) {
            signs = 0;
            bool worked = false;
            const double start = monotonic_seconds();
            group->on_rank_0(
                [&] {
                  usleep(static_cast<useconds_t>(seconds * 1e6));
                  worked = true;
                },
                [&] { ++signs; });
            // A rank that came later waited less.
            const double least = r.ranks.rank == 0 ? seconds : seconds - 0.4;
            if (worked != (r.ranks.rank == 0) || monotonic_seconds() - start < least) return 1;
            at::Tensor one = torch::ones({1});
            group->sum_(one);
            if (one.item<float>() != 3) return 2;
          }
          return r.ranks.rank == 0 || signs >= 10 ? 0 : 3;
        }) == 0);
}

TEST_CASE("StateOfEveryTypeIsBroadcastFromRankZero") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = join_over_gloo(r);
          const double mine = r.ranks.rank == 0 ? 3 : 5;
          at::Tensor a = torch::full({2, 3}, mine, torch::requires_grad()),
                     b = torch::full({5}, mine, at::kDouble), c = torch::full({}, mine, at::kLong);
          group->broadcast_state({{"a", a}, {"b", b}, {"c", c}});
          return a.sum().item<double>() == 18 && b.sum().item<double>() == 15 &&
                         c.item<int64_t>() == 3
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("RanksThatWaitForADeadRankZeroFail") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = join_over_gloo(r);
          try {
            group->on_rank_0([] { _exit(0); }, [] {});
          } catch (const UserError& e) {
            return std::string(e.what()).find("waiting for rank 0 failed") == std::string::npos;
          }
          return true;
        }) == 0);
}

TEST_CASE("OneRankNeedsNoGroup") {
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 5);
  at::Tensor x = torch::ones({2});
  group->sum_(x);
  group->barrier();
  CHECK(x.sum().item<float>() == 2);
  CHECK(group->process_group() == nullptr);
}

TEST_CASE("APeerThatDiesIsAReadableErrorAndNoTimeout") {
  int met[2];  // rank 0 says there that it has left join, whose all-reduce needs its peer alive
  REQUIRE(::pipe(met) == 0);
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = join_over_gloo(r, 60);
          if (r.ranks.rank == 1) {
            char byte = 0;
            if (::read(met[0], &byte, 1) == 1) ::raise(SIGKILL);
            return 0;  // makes the count of failed ranks wrong
          }
          if (::write(met[1], "x", 1) != 1) return 1;
          const double start = monotonic_seconds();
          at::Tensor x = torch::ones({2});
          try {
            group->sum_(x);
          } catch (const UserError& e) {
            const bool readable = std::string(e.what()).find("rank 0: all-reduce failed") == 0;
            return readable && e.code() == Exit::kEnvironment && monotonic_seconds() - start < 50
                       ? 0
                       : 1;
          }
          return 1;
        }) == 1);  // the killed one
  ::close(met[0]);
  ::close(met[1]);
}

TEST_CASE("ARankThatDoesNotComeIsAWaitInVainAndNoOtherFailure") {
  int waited[2];  // rank 0 says there that it has waited
  REQUIRE(::pipe(waited) == 0);
  CHECK(failed_ranks(2, [&](const Rendezvous& r) {
          const auto group = join_over_gloo(r, 2);
          if (r.ranks.rank == 1) {
            pollfd said{.fd = waited[0], .events = POLLIN, .revents = 0};
            return ::poll(&said, 1, 60'000) == 1 ? 0 : 3;
          }
          at::Tensor x = torch::ones({2});
          int code = 2;
          try {
            group->sum_(x);
          } catch (const UserError& e) {
            code = tells_of_vain_wait(e.what()) ? 0 : 1;
          }
          return ::write(waited[1], "x", 1) == 1 ? code : 4;
        }) == 0);
  ::close(waited[0]);
  ::close(waited[1]);
}

// Ranks that torchrun starts again meet at the store of those before them.
TEST_CASE("RestartedRanksReadNoAddressesOfTheRanksBefore") {
  CHECK(failed_ranks(2, [](const Rendezvous& first) {
          setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
          const auto before = join_over_gloo(first);
          Rendezvous again = first;
          again.listen_fd = -1;
          again.store_is_served = true;  // by rank 0 of the first meeting, as by an agent
          setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
          const auto after = join_over_gloo(again);
          at::Tensor x = torch::ones({2});
          after->sum_(x);
          before->barrier();
          return x[0].item<float>() == 2 ? 0 : 1;
        }) == 0);
}

TEST_CASE("NobodyAtTheRendezvousIsAReadableError") {
  Rendezvous r;
  r.ranks.rank = 1;
  r.ranks.world = 2;
  r.master.port = 1;  // nothing listens there
  CHECK_THROWS_WITH(join_over_gloo(r, 1),
                    Catch::Contains("rank 1: no rendezvous at 127.0.0.1:1 within 1s (--timeout): "
                                    "Connection refused; is rank 0 running there"));
}
