// SPDX-License-Identifier: Apache-2.0
#include "ops/minibatch_std/minibatch_std.h"

#include <catch2/catch.hpp>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/kernels.h"
#include "ops/minibatch_std/minibatch_std_cuda.h"

using namespace gantrain;

namespace {

void set_minibatch_std(FusedKernels& fused) {
  fused.minibatch_std = cuda_minibatch_std;
  fused.minibatch_std_gradient = cuda_minibatch_std_gradient;
}

struct Groups {
  int64_t group, channels;
};

struct Case {
  at::Tensor x;
  Groups groups;
};

int64_t samples_of_a_group(const at::Tensor& x, const Groups& groups) {
  int64_t g = std::min(groups.group, x.size(0));
  while (x.size(0) % g != 0) --g;
  return g;
}

Case random_case(Dice& dice, at::ScalarType type) {
  const int64_t parts = dice.one_of({1, 1, 2, 3});
  const int64_t channels = parts * dice.one_of({1, 2, 4, 8, 16, 37});
  const int64_t height = 1 + dice.up_to(6), width = dice.one_of({1, 2, 4, 5, 8});
  const at::Tensor x = at::randn({1 + dice.up_to(7), channels, height, width}).to(type);
  return {random_strides(dice, x), {1 + dice.up_to(5), parts}};
}

}  // namespace

TEST_CASE("MinibatchStdKernelsMeasureWhatTheComposedOperatorMeasures") {
  const WithFused table(set_minibatch_std);
  Dice dice(4);
  for (int64_t i = 0; i < 300; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const auto [x, groups] = random_case(dice, type);
    INFO(i << ": " << x.sizes() << " strides " << x.strides() << " " << x.scalar_type()
           << ", groups of " << groups.group << ", parts " << groups.channels);
    const at::Tensor y = minibatch_std(x, groups.group, groups.channels);
    REQUIRE(y.scalar_type() == type);
    REQUIRE(y.is_contiguous(x.suggest_memory_format()));
    const WithKernels reference(KernelSet::kRef);
    const at::Tensor expected = minibatch_std(x.to(at::kDouble), groups.group, groups.channels);
    REQUIRE(y.sizes() == expected.sizes());
    CHECK(share_of_error(y, expected) < epsilon_of(type) + 8 * epsilon_of(at::kFloat));
    CHECK(y.narrow(1, 0, x.size(1)).equal(x));
  }
}

TEST_CASE("MinibatchStdKernelsDerivativesAreThoseOfTheComposedOperator") {
  const WithFused table(set_minibatch_std);
  Dice dice(5);
  for (int64_t i = 0; i < 200; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const auto [x, groups] = random_case(dice, type);
    // Deviations of zero have no derivative to compare, and those of two samples are straight:
    // their second derivative is nothing but rounding.
    const int64_t g = samples_of_a_group(x, groups);
    if (x.stride(0) == 0 || g == 1) continue;
    const auto op = [groups = groups](const Tensors& in) {
      return minibatch_std(in[0], groups.group, groups.channels);
    };
    INFO(i << ": " << x.sizes() << " " << x.scalar_type() << ", groups of " << groups.group);
    // A second derivative is as large as the deviations are small.
    CHECK(derivatives_error(op, {x}, /*with_second=*/g > 2) < 16 * epsilon_of(type) + 1e-3);
  }
}

TEST_CASE("MinibatchStdKernelsTakeNearlyEqualSamples") {
  const at::Tensor apart = at::randn({4, 8, 4, 4}) * 1e-5;
  const at::Tensor x = (1000 + apart).to(at::kFloat);
  const at::Tensor found = cuda_minibatch_std(x, 4, 1, 1e-8).select(1, 8);
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor variance = (wide - wide.mean(0)).square().mean(0);
  const double expected = (variance + 1e-8).sqrt().mean().item<double>();
  CHECK(std::abs(found.min().item<double>() / expected - 1) < 1e-4);
  CHECK(std::abs(found.max().item<double>() / expected - 1) < 1e-4);
}

TEST_CASE("MinibatchStdOfFourByFourPixelsHasSixteenByteAccesses") {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = at::zeros({8, 64, 4, 4}, type);
    const auto planes = packs(MinibatchStdCall({}, x, {4, 1, 1e-8}).arguments);
    CHECK(planes.x);
    CHECK(planes.out);
    const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
    const auto pixels = packs(MinibatchStdCall({}, last, {4, 1, 1e-8}).arguments);
    CHECK(pixels.x);
    CHECK_FALSE(pixels.out);  // 65 channels
  }
}

TEST_CASE("MinibatchStdKernelsMergeManyChunks") {
  const at::Tensor x = at::randn({4, 32, 128, 130});  // more numbers than chunks have threads
  const at::Tensor found = cuda_minibatch_std(x, 2, 2, 1e-8);
  const WithKernels reference(KernelSet::kRef);
  CHECK(share_of_error(found, minibatch_std(x.to(at::kDouble), 2, 2)) < 1e-6);
}

TEST_CASE("MinibatchStdKernelsTakeImagesWithoutPixels") {
  CHECK(cuda_minibatch_std(at::zeros({4, 8, 0, 4}), 4, 1, 1e-8).sizes() ==
        at::IntArrayRef({4, 9, 0, 4}));
}
