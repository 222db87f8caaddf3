// SPDX-License-Identifier: Apache-2.0
#include <ATen/autocast_mode.h>

#include <catch2/catch.hpp>

#include "ops/cases.h"
#include "ops/convolution/convolution.h"
#include "support/gradient_checks.h"

using namespace gantrain;

TEST_CASE("ConvResampleMatchesReference") {
  for_each_case("ops_conv2d_resample", {"conv2d_resample"}, [](OperatorCase& c) {
    const ConvResample how{c.what["up"],
                           c.what["down"],
                           padding_of(c.what["padding"]),
                           c.what["groups"],
                           c.what["flip_weight"],
                           c.what["flip_filter"]};
    REQUIRE(c["f"].defined() == c.what["filter"].get<bool>());
    const at::Tensor x = c.leaf("x"), w = c.leaf("w");
    const at::Tensor y = conv2d_resample(x, w, c["f"], how);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"w", w}});
  });
}

namespace {

struct OddResampling {
  std::vector<int64_t> w, f;
  ConvResample how;
};

std::vector<OddResampling> odd_resamplings() {
  return {
      {{2, 1, 3, 3}, {4, 4}, {2, 1, {1, 1, 1, 1}, 1, false}},
      {{2, 1, 3, 3}, {4, 4}, {1, 2, {1, 1, 1, 1}}},
      {{1, 1, 1, 1}, {4, 4}, {1, 2, {0, 1, -1, 0}}},
      {{3, 1, 1, 1}, {3, 2}, {2, 1, {}, 1, true, true}},
      {{2, 1, 3, 5}, {3, 5}, {2, 2, {3, 1, 2, 0}, 1, true, true}},
      {{2, 1, 5, 3}, {6}, {3, 1, {2, 2, 0, 3}, 1, false}},
      {{1, 1, 3, 3}, {2}, {3, 2, {4, 4, 4, 4}}},
      {{2, 1, 3, 3}, {}, {1, 1, {2, 0, 1, 3}, 1, false}},
  };
}

}  // namespace

TEST_CASE("ConvResamplesDerivativesMatchDifferences") {
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const OddResampling& odd : odd_resamplings()) {
      const at::Tensor f = odd.f.empty() ? at::Tensor() : torch::randn(odd.f, at::kDouble);
      const auto y = [&](const Tensors& in) { return conv2d_resample(in[0], in[1], f, odd.how); };
      const Tensors inputs = {torch::randn({2, 1, 7, 9}, at::kDouble),
                              torch::randn(odd.w, at::kDouble)};
      CAPTURE(odd.w, odd.f, odd.how.up, odd.how.down);
      CHECK(gradient_error(y, inputs) < kGradientTolerance);
      CHECK(second_gradient_error(y, inputs) < kGradientTolerance);
    }
  }
}

TEST_CASE("TheCheapOrderEqualsTheDefinition") {
  for (const OddResampling& odd : odd_resamplings()) {
    for (const int64_t groups : {1, 3}) {
      ConvResample how = odd.how;
      how.groups = groups;
      const at::Tensor f = odd.f.empty() ? at::Tensor() : torch::randn(odd.f, at::kDouble);
      const at::Tensor x = torch::randn({2, 3, 7, 9}, at::kDouble);
      const at::Tensor w =
          torch::randn({odd.w[0] * groups, 3 / groups, odd.w[2], odd.w[3]}, at::kDouble);
      const WithKernels plain(KernelSet::kRef);
      const at::Tensor reference = conv2d_resample(x, w, f, how);
      const WithKernels fast(KernelSet::kAuto);
      CAPTURE(odd.w, odd.f, how.up, how.down, groups);
      CHECK(scaled_error(conv2d_resample(x, w, f, how), reference) < 1e-12);
    }
  }
}

TEST_CASE("ConvResampleFollowsAutocast") {
  const at::Tensor x = torch::randn({1, 2, 8, 8}), w = torch::randn({3, 2, 3, 3});
  const ConvResample how{2, 1, {1, 1, 1, 1}};
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const at::Tensor lowered = conv2d_resample(x, w, setup_filter({1, 3, 3, 1}), how);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(lowered.scalar_type() == at::kBFloat16);
  const at::Tensor y = conv2d_resample(x, w, setup_filter({1, 3, 3, 1}), how);
  CHECK(y.scalar_type() == at::kFloat);
  CHECK(scaled_error(lowered, y) < 3e-2);
}
