// SPDX-License-Identifier: Apache-2.0
#include "support/wait_counter.h"

#include <thread>

#include "core/torch.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

std::string waits_of(const std::function<void()>& work) {
  const WaitCounter counter;
  work();
  return text_of(counter.seen());
}

}  // namespace

TEST_CASE("EveryOperatorThatHandsNumbersToTheHostCountsOnce") {
  const Tensor x = torch::ones({}), many = torch::ones({4}), mask = many > 0;
  CHECK(waits_of([&] { x.item<float>(); }) == "aten::item Float");
  CHECK(waits_of([&] { x.item(); }) == "aten::item Float");
  CHECK(waits_of([&] { static_cast<void>(x.is_nonzero()); }) == "aten::is_nonzero Float");
  CHECK(waits_of([&] { torch::equal(many, many.clone()); }) == "aten::equal Float");
  CHECK(waits_of([&] { many.nonzero(); }) == "aten::nonzero Float");
  CHECK(waits_of([&] { many.masked_select(mask); }) == "aten::masked_select Float");
  CHECK(waits_of([&] { many.index({mask}); }) == "aten::nonzero Bool");
  CHECK(waits_of([&] {
          x.item();
          x.to(at::kInt).item();
        }) == "aten::item Float, aten::item Int");
}

TEST_CASE("CopiesBetweenDevicesCount") {
  CHECK(are_apart(at::kCPU, at::Device(at::kCUDA, 0)));
  CHECK(are_apart(at::Device(at::kCUDA, 0), at::Device(at::kCUDA, 1)));
  CHECK_FALSE(are_apart(at::Device(at::kCUDA, 1), at::Device(at::kCUDA, 1)));
  CHECK_FALSE(are_apart(at::kCPU, at::kMeta));  // which holds no numbers
  CHECK(waits_of([] { torch::ones({3}).to(at::kMeta); }).empty());
}

TEST_CASE("WhatStaysOnTheDeviceCountsNothing") {
  Tensor x = torch::ones({3, 3}, torch::requires_grad());
  CHECK(waits_of([&] {
          const Tensor y = torch::matmul(x, x).to(at::kDouble).cpu();
          y.square().sum().backward();
          const torch::NoGradGuard no_grad;
          x.copy_(at::where(y > 0, x, torch::zeros_like(x)));
          x.fill_(2);
        }).empty());
}

TEST_CASE("AllThreadsAreHeardAndNobodyOnceTheCounterIsGone") {
  const Tensor x = torch::ones({});
  {
    const WaitCounter counter;
    std::thread([&] { x.item(); }).join();
    CHECK(counter.count() == 1);
  }
  x.item();
  const WaitCounter fresh;
  CHECK(fresh.count() == 0);
}

// A CPU kernel reads the step counts that it is given; a GPU's reads them on the device.
TEST_CASE("AFusedOptimizersOwnReadsDoNotCount") {
  std::vector<Tensor> p = {torch::ones({2})}, g = {torch::ones({2})}, m = {torch::zeros({2})},
                      v = {torch::zeros({2})}, steps = {torch::ones({})};
  CHECK(waits_of([&] {
          at::_fused_adam_(p, g, m, v, {}, steps, 0.1, 0.9, 0.99, 0, 1e-8, false, false);
        }).empty());
}
