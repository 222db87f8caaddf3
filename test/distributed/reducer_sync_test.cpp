// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

struct Two {
  at::Tensor a = torch::ones({3}, torch::requires_grad());
  at::Tensor b = torch::ones({3}, torch::requires_grad());
  NamedTensors parameters() const { return {{"a", a}, {"b", b}}; }
};

DistOptions options_of(DdpMode mode, FindUnused find_unused) {
  DistOptions options;
  options.ddp_mode = mode;
  options.find_unused = find_unused;
  return options;
}

std::shared_ptr<Group> meet_others(const Rendezvous& r) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, 20);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("AParameterOutsideTheLossIsSeenNotSilentlyUnreduced") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const Two net;
          const auto sync = GradientSync::create(options_of(DdpMode::kDynamic, FindUnused::kOff),
                                                 meet_others(r),
                                                 "net",
                                                 {{"", net.parameters()}});
          sync->begin(true);
          sync->expect_backward(net.a.sum()).backward();  // b has no part in it
          return message_of([&] { sync->finish(); })
                             .find(
                                 "gradients of net were not all reduced: b took no part in the "
                                 "loss; use "
                                 "--find-unused on") == 0
                     ? 0
                     : 1;
        }) == 0);
}

TEST_CASE("FindUnusedMakesItRightAndIsDynamicModesDefault") {
  CHECK(
      failed_ranks(2, [](const Rendezvous& r) {
        const Two net;
        const auto sync = GradientSync::create({}, meet_others(r), "net", {{"", net.parameters()}});
        sync->begin(true);
        sync->expect_backward((net.a * static_cast<double>(r.ranks.rank + 1)).sum()).backward();
        sync->finish();
        return net.a.grad()[0].item<float>() == 1.5f ? 0 : 1;
      }) == 0);
  for (const DdpMode mode : {DdpMode::kDynamic, DdpMode::kWrapper}) {
    CHECK(failed_ranks(2, [mode](const Rendezvous& r) {
            const Two net;
            const auto sync = GradientSync::create(
                options_of(mode, FindUnused::kOn), meet_others(r), "net", {{"", net.parameters()}});
            for (int repeat = 0; repeat < 3; ++repeat) {
              for (const auto& [name, p] : net.parameters())
                const_cast<at::Tensor&>(p).mutable_grad() = at::Tensor();
              sync->begin(true);
              const at::Tensor y = net.a * static_cast<double>(r.ranks.rank + 1);
              sync->forwarded("", y);
              sync->expect_backward(y.sum()).backward();
              sync->finish();
              if (net.a.grad()[0].item<float>() != 1.5f) return 1;
            }
            return 0;
          }) == 0);
  }
}

TEST_CASE("ThePartsOfAWrappedNetworkAreArmedByTheirOwnForwards") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const Two net;
          const std::vector<SyncPart> parts = {
              {"a", {{"a", net.a}}}, {"b", {{"b", net.b}}}, {"none", {}}};
          const auto sync = GradientSync::create(
              options_of(DdpMode::kWrapper, FindUnused::kOff), meet_others(r), "net", parts);
          sync->begin(true);
          const at::Tensor y = net.a * static_cast<double>(r.ranks.rank);
          sync->forwarded("a", y);
          const at::Tensor z = y * net.b;
          sync->forwarded("b", z);
          sync->expect_backward(z.sum()).backward();
          sync->finish();
          return net.a.grad()[0].item<float>() == 0.5f && net.b.grad()[0].item<float>() == 0.5f ? 0
                                                                                                : 1;
        }) == 0);
}

TEST_CASE("ACallAroundTheHandleIsAnErrorThatNamesThePart") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const Two net;
          const std::vector<SyncPart> parts = {{"a", {{"a", net.a}}}, {"b", {{"b", net.b}}}};
          const auto sync = GradientSync::create(
              options_of(DdpMode::kWrapper, FindUnused::kOff), meet_others(r), "net", parts);
          sync->begin(true);
          sync->forwarded("a", net.a * 1.0);
          const std::string text =
              message_of([&] { sync->expect_backward((net.a * net.b).sum()); });
          return text.find("net.b was not called") != std::string::npos ? 0 : 1;
        }) == 0);
}

TEST_CASE("ACallOfTheWholeArmsItsPartsAndOneOfAPieceItsPart") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = meet_others(r);
          for (const bool whole_is_called : {true, false}) {
            const Two net;
            const std::vector<SyncPart> halves = {{"body.a", {{"a", net.a}}},
                                                  {"body.b", {{"b", net.b}}}};
            const std::vector<SyncPart> whole = {{"body", net.parameters()}};
            const auto sync = GradientSync::create(options_of(DdpMode::kWrapper, FindUnused::kOff),
                                                   group,
                                                   "net",
                                                   whole_is_called ? halves : whole);
            sync->begin(true);
            const at::Tensor y = net.a * static_cast<double>(r.ranks.rank);
            if (!whole_is_called) sync->forwarded("body.a", y);
            const at::Tensor z = y * net.b;
            sync->forwarded(whole_is_called ? "body" : "body.b", z);
            sync->expect_backward(z.sum()).backward();
            sync->finish();
            if (net.a.grad()[0].item<float>() != 0.5F || net.b.grad()[0].item<float>() != 0.5F)
              return 1;
          }
          return 0;
        }) == 0);
}

TEST_CASE("ACallOfWhatIsInNoPartIsAnErrorThatNamesIt") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const Two net;
          const auto sync = GradientSync::create(options_of(DdpMode::kWrapper, FindUnused::kOff),
                                                 meet_others(r),
                                                 "G",
                                                 {{"mapping", net.parameters()}, {"noise", {}}});
          sync->begin(true);
          sync->forwarded("noise", net.a * 2.0);  // a part without parameters
          const std::string text = message_of([&] { sync->forwarded("synthesis", net.a * 2.0); });
          return text == "wrapper mode: G.synthesis is in none of its parts" ? 0 : 1;
        }) == 0);
}

namespace {

// Two micro-batches a step; the second network leaves b out. Returns the bytes of each step.
std::vector<int64_t> static_steps(GradientSync& sync,
                                  const Group& group,
                                  const Two& net,
                                  bool uses_b) {
  std::vector<int64_t> bytes;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (auto [name, p] : net.parameters()) p.mutable_grad() = at::Tensor();
    const Traffic before = group.traffic();
    for (const bool last : {false, true}) {
      sync.begin(last);
      const at::Tensor y =
          (net.a + (uses_b ? net.b : torch::zeros({3}))) * static_cast<double>(group.rank() + 1);
      sync.forwarded("", y);
      sync.expect_backward(y.sum() / 2).backward();
    }
    sync.finish();
    bytes.push_back(group.traffic().bytes - before.bytes);
    if (net.a.grad()[0].item<float>() != 1.5F) bytes.push_back(-1);
  }
  return bytes;
}

}  // namespace

TEST_CASE("AStaticGraphIsSearchedOnceAlone") {
  for (const DdpMode mode : {DdpMode::kDynamic, DdpMode::kWrapper}) {
    for (const bool uses_b : {true, false}) {
      CHECK(
          failed_ranks(2, [=](const Rendezvous& r) {
            const Two net;
            DistOptions options = options_of(mode, FindUnused::kOn);
            options.static_graph = true;
            const auto group = meet_others(r);
            const auto sync = GradientSync::create(options, group, "net", {{"", net.parameters()}});
            const int64_t gradients = 2 * 3 * 4, bitmap = 2 * 4;
            const std::vector<int64_t> expected = {gradients + bitmap, gradients, gradients};
            if (static_steps(*sync, *group, net, uses_b) != expected) return 1;
            return sync->description() == "static graph, 1 bucket" ? 0 : 2;
          }) == 0);
    }
  }
}

TEST_CASE("AStaticGraphThatChangesIsAnError") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const Two net;
          DistOptions options = options_of(DdpMode::kDynamic, FindUnused::kAuto);
          options.static_graph = true;
          const auto group = meet_others(r);
          const auto sync = GradientSync::create(options, group, "net", {{"", net.parameters()}});
          static_steps(*sync, *group, net, false);
          const std::string text = message_of([&] { static_steps(*sync, *group, net, true); });
          return text.find("graph has changed") != std::string::npos ? 0 : 1;
        }) == 0);
}

TEST_CASE("AParameterThatOneRankAloneUsesIsReducedAndOneThatNoneUsesIsLeft") {
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat}) {
    CHECK(
        failed_ranks(2, [mode](const Rendezvous& r) {
          const Two net;
          const auto sync = GradientSync::create(
              options_of(mode, FindUnused::kAuto), meet_others(r), "net", {{"", net.parameters()}});
          sync->begin(true);
          const at::Tensor y = r.ranks.rank == 0 ? net.a * 4.0 : net.b * 6.0;
          sync->forwarded("", y);
          sync->expect_backward(y.sum()).backward();
          sync->finish();
          return net.a.grad()[0].item<float>() == 2 && net.b.grad()[0].item<float>() == 3 ? 0 : 1;
        }) == 0);
  }
}

TEST_CASE("APenaltyAloneLeavesRanksEqualInWrapperMode") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          // D(x) = (x w)^2 + b: the penalty on its gradient leaves b out.
          at::Tensor w = torch::full({3}, 0.5, torch::requires_grad()),
                     b = torch::zeros({1}, torch::requires_grad());
          const auto sync = GradientSync::create(options_of(DdpMode::kWrapper, FindUnused::kOff),
                                                 meet_others(r),
                                                 "D",
                                                 {{"", {{"w", w}, {"b", b}}}});
          for (int repeat = 0; repeat < 3; ++repeat) {
            w.mutable_grad() = b.mutable_grad() = at::Tensor();
            sync->begin(true);
            const at::Tensor x =
                torch::full({3}, static_cast<double>(r.ranks.rank + 1), torch::requires_grad());
            const at::Tensor scores = (x * w).square() + b;
            sync->forwarded("", scores);
            const at::Tensor gradient =
                torch::autograd::grad({scores.sum()}, {x}, {}, true, true)[0];
            sync->expect_backward(gradient.square().sum()).backward();
            sync->finish();
            // d/dw of (2 x w^2)^2 = 16 x^2 w^3; mean over x = 1, 2 is 16 * 2.5 / 8 = 5.
            if (std::abs(w.grad()[0].item<float>() - 5) > 1e-5 || b.grad()[0].item<float>() != 0)
              return 1;
          }
          return 0;
        }) == 0);
}
