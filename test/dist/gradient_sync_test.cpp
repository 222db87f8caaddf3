// SPDX-License-Identifier: Apache-2.0
#include "dist/gradient_sync.h"

#include <catch2/catch.hpp>

#include "spawn_ranks.h"
#include "tensor_checks.h"

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
    const at::Tensor mine = data().slice(0, r.rank, std::nullopt, r.world);
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
