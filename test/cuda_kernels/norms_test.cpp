// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms.h"

#include <catch2/catch.hpp>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/gpu/table_cuda.h"
#include "ops/kernels.h"
#include "ops/norms/norms_cuda.h"

using namespace gantrain;

namespace {

void set_norms(FusedKernels& fused) {
  fused.pixel_norm = cuda_pixel_norm;
  fused.pixel_norm_gradient = cuda_pixel_norm_gradient;
  fused.adain = cuda_adain;
  fused.adain_gradient = cuda_adain_gradient;
}

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
  const WithFused table(set_norms);
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
  const WithFused table(set_norms);
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
  const WithFused table(set_norms);
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
  const WithFused table(set_norms);
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
  const WithFused table(set_norms);
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
