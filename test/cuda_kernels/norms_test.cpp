// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms.h"

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/kernels.h"
#include "ops/norms/norms_cuda.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

at::Tensor random_norm_maps(Dice& dice, at::ScalarType type) {
  const int64_t channels = dice.one_of({1, 2, 3, 4, 8, 16, 40, 64, 129});
  const int64_t height = 1 + dice.up_to(dice.coin() ? 5 : 30), width = 1 + dice.up_to(20);
  const double shift = dice.coin() ? 0 : 3;
  const at::Tensor x = at::randn({1 + dice.up_to(3), channels, height, width}) + shift;
  return random_strides(dice, x.to(type));
}

std::string described(const at::Tensor& x) {
  std::ostringstream text;
  text << x.sizes() << " strides " << x.strides() << " " << x.scalar_type();
  return text.str();
}

at::Tensor random_style(const at::Tensor& x) { return at::randn({x.size(0), 2 * x.size(1)}); }

// A rounding of the result and some of sums in float32.
double norm_tolerance(at::ScalarType type) {
  return 2 * epsilon_of(type) + 64 * epsilon_of(at::kFloat);
}

}  // namespace

TEST_CASE("PixelNormKernelsNormaliseAsTheComposedOperatorDoes") {
  const WithCudaKernels table;
  Dice dice(6);
  for (int64_t i = 0; i < 300; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const at::Tensor x = random_norm_maps(dice, type);
    INFO(i << ": " << described(x));
    const at::Tensor y = pixel_norm(x);
    REQUIRE(y.scalar_type() == type);
    REQUIRE(y.is_contiguous(x.suggest_memory_format()));
    const WithKernels reference(KernelSet::kRef);
    CHECK(share_of_error(y, pixel_norm(x.to(at::kDouble))) < norm_tolerance(type));
  }
}

TEST_CASE("PixelNormKernelsDerivativesAreThoseOfTheComposedOperator") {
  const WithCudaKernels table;
  Dice dice(7);
  for (int64_t i = 0; i < 200; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    // Away from zero, where derivatives grow without bound.
    const at::Tensor x = random_norm_maps(dice, type) + 4;
    if (x.size(1) == 1) continue;  // constant: its derivative is nothing but rounding
    INFO(i << ": " << described(x));
    const auto op = [](const Tensors& in) { return pixel_norm(in[0]); };
    CHECK(derivatives_error(op, {x}) < 16 * epsilon_of(type) + 1e-4);
  }
}

TEST_CASE("AdainKernelsNormaliseAsTheComposedOperatorDoes") {
  const WithCudaKernels table;
  Dice dice(8);
  for (int64_t i = 0; i < 300; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const at::Tensor x = random_norm_maps(dice, type);
    const at::Tensor style = random_style(x);
    INFO(i << ": " << described(x));
    const at::Tensor y = adain(x, style);
    REQUIRE(y.scalar_type() == type);
    REQUIRE(y.is_contiguous(x.suggest_memory_format()));
    const WithKernels reference(KernelSet::kRef);
    const at::Tensor expected = adain(x.to(at::kDouble), style.to(at::kDouble));
    CHECK(share_of_error(y, expected) < norm_tolerance(type));
  }
}

TEST_CASE("AdainKernelsDerivativesAreThoseOfTheComposedOperator") {
  const WithCudaKernels table;
  Dice dice(9);
  for (int64_t i = 0; i < 200; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16});
    const at::Tensor x = random_norm_maps(dice, type);
    // Planes of a few pixels may be nearly constant, where derivatives grow without bound.
    if (x.size(2) * x.size(3) < 12) continue;
    INFO(i << ": " << described(x));
    const auto op = [](const Tensors& in) { return adain(in[0], in[1]); };
    CHECK(derivatives_error(op, {x, random_style(x)}) < 32 * epsilon_of(type) + 1e-4);
  }
}

TEST_CASE("AdainKernelsTakePlanesFarFromZero") {
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const at::Tensor x = (at::randn({2, 4, 300, 40}) + 1000).contiguous(format);
    const at::Tensor style = random_style(x);
    const at::Tensor y = std::get<0>(cuda_adain(x, style, 1e-8));
    const WithKernels reference(KernelSet::kRef);
    CHECK(share_of_error(y, adain(x.to(at::kDouble), style.to(at::kDouble))) < 1e-4);
  }
}

TEST_CASE("AdainKernelsMergeTheChunksOfLargePlanes") {
  const WithCudaKernels table;
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (const int64_t channels : {3, 8}) {
      const at::Tensor x = at::randn({1, channels, 520, 516}).contiguous(format);
      const at::Tensor style = random_style(x), dout = at::randn_like(x);
      const auto [y, mean, inverse] = cuda_adain(x, style, 1e-8);
      const auto [dx, dstyle] = cuda_adain_gradient(dout, x, style, mean, inverse);
      const WithKernels reference(KernelSet::kRef);
      const at::Tensor wide = x.to(at::kDouble).requires_grad_(true);
      const at::Tensor wide_style = style.to(at::kDouble).requires_grad_(true);
      const at::Tensor expected = adain(wide, wide_style);
      const auto gradients =
          torch::autograd::grad({expected}, {wide, wide_style}, {dout.to(at::kDouble)});
      CHECK(share_of_error(y, expected.detach()) < 1e-6);
      CHECK(share_of_error(dx, gradients[0]) < 1e-6);
      CHECK(share_of_error(dstyle, gradients[1]) < 1e-5);
    }
  }
}

TEST_CASE("NormsOfCommonShapesHaveSixteenByteAccesses") {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      for (const int64_t size : {4, 8, 64}) {
        const at::Tensor x = at::zeros({2, 16, size, size}, type).contiguous(format);
        CHECK(packs(PixelNormCall({}, x, 1e-8).arguments));
        CHECK(packs(PixelNormCall(x, x, 1e-8).arguments));
        CHECK(packs(AdainCall({}, x, random_style(x), {}, 1e-8).arguments));
      }
    }
  }
}

TEST_CASE("NormKernelsTakeImagesWithoutPixels") {
  const at::Tensor x = at::zeros({2, 8, 0, 4});
  CHECK(cuda_pixel_norm(x, 1e-8).sizes() == x.sizes());
  CHECK(std::get<0>(cuda_adain(x, random_style(x), 1e-8)).sizes() == x.sizes());
}

namespace {

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
  const WithCudaKernels table;
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
  const WithCudaKernels table;
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
