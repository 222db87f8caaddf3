// SPDX-License-Identifier: Apache-2.0
#include "distributed/gradient_sync.h"

#include <functional>

#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

// y = tanh(x W1) W2 with loss mean(y^2): a network with its data cut by ranks.
struct Toy {
  at::Tensor W1 = torch::arange(12, at::kFloat).reshape({3, 4}).mul(0.1).requires_grad_(true);
  at::Tensor W2 =
      torch::arange(8, at::kFloat).reshape({4, 2}).mul(0.2).sub(0.5).requires_grad_(true);

  at::Tensor forward(const at::Tensor& x) const {
    return torch::matmul(torch::tanh(torch::matmul(x, W1)), W2);
  }
  NamedTensors parameters() const { return {{"W1", W1}, {"W2", W2}}; }
};

at::Tensor data() { return torch::linspace(-1, 1, 24).reshape({8, 3}); }

at::Tensor whole_gradient(int which) {
  const Toy toy;
  toy.forward(data()).square().mean().backward();
  return which == 1 ? toy.W1.grad() : toy.W2.grad();
}

int check_mode(const Rendezvous& r, DdpMode mode, int64_t accumulate, bool views) {
  DistOptions options;
  options.ddp_mode = mode;
  options.gradient_as_bucket_view = views;
  options.bucket_mb = options.first_bucket_mb = 0.00003;  // a bucket for each parameter
  const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 20);
  const Toy toy;
  const auto sync = GradientSync::create(options, group, "toy", {{"", toy.parameters()}});
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const auto& [name, p] : toy.parameters())
      const_cast<at::Tensor&>(p).mutable_grad() = at::Tensor();
    const at::Tensor mine = data().slice(0, r.ranks.rank, std::nullopt, r.ranks.world);
    for (int64_t k = 0; k < accumulate; ++k) {
      sync->begin(k + 1 == accumulate);
      const at::Tensor y = toy.forward(mine.slice(0, k, std::nullopt, accumulate));
      sync->forwarded("", y);
      const at::Tensor loss = sync->expect_backward(y.square().mean() / accumulate);
      loss.backward();
    }
    sync->finish();
    if (scaled_error(toy.W1.grad(), whole_gradient(1)) > 1e-6) return 1;
    if (scaled_error(toy.W2.grad(), whole_gradient(2)) > 1e-6) return 1;
  }
  return 0;
}

}  // namespace

TEST_CASE("EveryModeGivesTheGradientOfTheWholeBatch") {
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat}) {
    for (const int64_t accumulate : {1, 2}) {
      for (const bool views : {false, true}) {
        CAPTURE(static_cast<int>(mode), accumulate, views);
        CHECK(failed_ranks(2, [&](const Rendezvous& r) {
                return check_mode(r, mode, accumulate, views);
              }) == 0);
      }
    }
  }
}

TEST_CASE("OneRankSyncsNothing") {
  const Toy toy;
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 5);
  const auto sync = GradientSync::create({}, group, "toy", {{"", toy.parameters()}});
  sync->begin(true);
  sync->expect_backward(toy.forward(data()).square().mean()).backward();
  sync->finish();
  CHECK(torch::equal(toy.W1.grad(), whole_gradient(1)));
}

TEST_CASE("AParameterWithoutGradientIsRefusedByName") {
  const Toy toy;
  const_cast<at::Tensor&>(toy.W2).requires_grad_(false);
  const auto group = Group::join({}, BackendKind::kGloo, at::kCPU, 5);
  CHECK_THROWS_WITH(GradientSync::create({}, group, "toy", {{"", toy.parameters()}}),
                    Catch::Contains("W2"));
}

namespace {

constexpr int64_t kBytes = (12 + 8) * 4;  // of the toy's gradients

// The toy in a world of two, its syncs made as `options` say.
class Session {
 public:
  Session(const DistOptions& options, std::shared_ptr<Group> group, SyncPromise promise = {})
      : group_(std::move(group)),
        sync_(GradientSync::create(options, group_, "toy", {{"", toy.parameters()}}, promise)) {}

  // One reduction; returns what it cost.
  Traffic reduce() {
    for (auto [name, p] : toy.parameters()) p.mutable_grad() = at::Tensor();
    const Traffic before = group_->traffic();
    sync_->begin(true);
    const at::Tensor y =
        toy.forward(data().slice(0, group_->rank(), std::nullopt, group_->world()));
    sync_->forwarded("", y);
    sync_->expect_backward(y.square().mean()).backward();
    sync_->finish();
    const Traffic after = group_->traffic();
    return {after.collectives - before.collectives, after.bytes - before.bytes};
  }

  double error() const {
    return std::max(scaled_error(toy.W1.grad(), whole_gradient(1)),
                    scaled_error(toy.W2.grad(), whole_gradient(2)));
  }
  Group& group() { return *group_; }
  const GradientSync& sync() const { return *sync_; }

  Toy toy;

 private:
  std::shared_ptr<Group> group_;
  std::unique_ptr<GradientSync> sync_;
};

bool check_in_every_mode(const std::function<int(DdpMode, const std::shared_ptr<Group>&)>& body) {
  for (const DdpMode mode : {DdpMode::kWrapper, DdpMode::kDynamic, DdpMode::kFlat}) {
    if (failed_ranks(2, [&](const Rendezvous& r) {
          return body(mode, Group::join(r, BackendKind::kGloo, at::kCPU, 20));
        }) != 0)
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("BucketSizesDecideHowManyAllReducesThereAre") {
  CHECK(check_in_every_mode([](DdpMode mode, const std::shared_ptr<Group>& group) {
    const auto collectives = [&](double first_mb, double mb) {
      DistOptions options;
      options.ddp_mode = mode;
      options.first_bucket_mb = first_mb;
      options.bucket_mb = mb;
      Session session(options, group, {/*all_used=*/true, false});
      const int64_t count = session.reduce().collectives;
      return count == session.sync().buckets() && session.error() < 1e-6 ? count : -1;
    };
    return collectives(0.00001, 0.00001) == (mode == DdpMode::kFlat ? 1 : 2) &&
                   collectives(1, 0.00001) == 1 && collectives(1, 25) == 1
               ? 0
               : 1;
  }));
}

TEST_CASE("GradientsShareTheBucketsStorageOrHaveTheirOwn") {
  CHECK(check_in_every_mode([](DdpMode mode, const std::shared_ptr<Group>& group) {
    for (const bool views : {true, false}) {
      DistOptions options;
      options.ddp_mode = mode;
      options.gradient_as_bucket_view = views;
      Session session(options, group);
      session.reduce();
      // Both lie in one bucket.
      if (session.toy.W1.grad().is_alias_of(session.toy.W2.grad()) != views) return 1;
      if (session.error() > 1e-6) return 2;
    }
    return 0;
  }));
}

TEST_CASE("CompressionHalvesTheBytesAndKeepsHalfPrecision") {
  CHECK(check_in_every_mode([](DdpMode mode, const std::shared_ptr<Group>& group) {
    for (const Compress how : {Compress::kNone, Compress::kFp16, Compress::kBf16}) {
      DistOptions options;
      options.ddp_mode = mode;
      options.compress = how;
      Session session(options, group, {/*all_used=*/true, false});
      for (int repeat = 0; repeat < 3; ++repeat) {
        if (session.reduce().bytes != (how == Compress::kNone ? kBytes : kBytes / 2)) return 1;
        const double epsilon = how == Compress::kFp16 ? 0x1p-10 : 0x1p-7;
        const double error = session.error();
        if (how == Compress::kNone ? error > 1e-6 : error > 2 * epsilon || error < 1e-6) return 2;
        // Bit for bit the same on both ranks, and still float32.
        at::Tensor sum =
            torch::cat({session.toy.W1.grad().flatten(), session.toy.W2.grad().flatten()});
        const at::Tensor mine = sum.clone();
        if (mine.scalar_type() != at::kFloat) return 3;
        session.group().sum_(sum);
        if (!torch::equal(sum, 2 * mine)) return 4;
      }
    }
    return 0;
  }));
}

TEST_CASE("FindUnusedAutoFollowsThePromiseAndSaysWhatItChose") {
  CHECK(check_in_every_mode([](DdpMode mode, const std::shared_ptr<Group>& group) {
    for (const bool promised : {true, false}) {
      DistOptions options;
      options.ddp_mode = mode;
      Session session(options, group, {promised, false});
      if (session.reduce().bytes != kBytes) return 1;  // the host's search sends nothing
      const std::string text = session.sync().description();
      const std::string expected = mode == DdpMode::kFlat ? "one flat all-reduce"
                                   : promised             ? "find-unused off, 1 bucket"
                                                          : "find-unused on, 1 bucket";
      if (text != expected) return 2;
    }
    return 0;
  }));
}

TEST_CASE("ANetworkWithoutParametersCostsNothing") {
  CHECK(check_in_every_mode([](DdpMode mode, const std::shared_ptr<Group>& group) {
    DistOptions options;
    options.ddp_mode = mode;
    const Traffic before = group->traffic();
    const auto sync = GradientSync::create(options, group, "none", {{"", {}}});
    const at::Tensor x = torch::ones({1}, torch::requires_grad());
    sync->begin(true);
    sync->forwarded("", x);
    sync->expect_backward(x.sum()).backward();
    sync->finish();
    return sync->buckets() == 0 && group->traffic().collectives == before.collectives ? 0 : 1;
  }));
}
