// SPDX-License-Identifier: Apache-2.0
#include "ops/filtered_lrelu/filtered_lrelu.h"

#include <algorithm>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/filtered_lrelu/filtered_lrelu_cuda.h"
#include "ops/gpu/table_cuda.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

// Magnitudes sum up to 1: far larger numbers before the clamp would leave it their rounding.
at::Tensor filter_of(Dice& dice, int64_t factor, bool known) {
  const auto taps = [&] { return known || dice.coin() ? 6 * factor : 1 + dice.up_to(7); };
  const int64_t kind = known ? 1 : dice.up_to(3);
  if (kind == 0) return {};
  const at::Tensor f = kind < 3 ? at::randn({taps()}) : at::randn({taps(), taps()});
  return f / f.abs().sum();
}

// The next pad that strips know: those of StyleGAN3's layers and of their derivatives.
int64_t pad_of_strips(const FilteredLrelu& how, int64_t pad) {
  const int64_t by = how.up == 2 && how.down == 2 ? 2 : 4;
  const int64_t rest = by == 2 ? 1 : how.up == 4 ? 2 : 0;
  while (((pad % by) + by) % by != rest) ++pad;
  return pad;
}

// Half of them with the factors and filters that strips know, and most of those with pads that they
// know; crops, pads, sizes that fit nothing.
FilteredLrelu random_how(Dice& dice, at::IntArrayRef sizes) {
  const bool known = dice.coin();
  FilteredLrelu how;
  how.up = known ? dice.one_of({2, 4}) : 1 + dice.up_to(4);
  how.down = known ? 2 : 1 + dice.up_to(4);
  if (known && how.up == 2 && dice.coin()) how.down = 4;
  how.up_filter = filter_of(dice, how.up, known);
  how.down_filter = filter_of(dice, how.down, known);
  how.slope = dice.one_of({0.2, 0.5, 1.0});
  if (dice.coin()) how.clamp = 0.7;
  const auto taps = [](const at::Tensor& f, int64_t axis) {
    return !f.defined() ? 1 : f.size(f.dim() == 1 ? 0 : axis);
  };
  const bool turned = known && dice.up_to(3) > 0;
  for (const int64_t axis : {1, 0}) {
    const int64_t pixels = sizes[2 + axis] * how.up, at = axis == 1 ? 0 : 2;
    how.padding[at] = std::max(dice.up_to(15) - 5, -(pixels - 1) / 2);
    if (turned) how.padding[at] = pad_of_strips(how, how.padding[at]);
    how.padding[at + 1] = std::max(dice.up_to(15) - 5, -(pixels - 1) / 2);
    const int64_t least = taps(how.up_filter, axis) + taps(how.down_filter, axis) - 1;
    const int64_t missing = least - pixels - how.padding[at] - how.padding[at + 1];
    how.padding[at + 1] += std::max<int64_t>(missing, 0);
  }
  return how;
}

bool has_strips(const at::Tensor& x, const FilteredLrelu& how) {
  return FilteredLreluCall(x, {}, {how}).arguments.strips;
}

std::string described(const at::Tensor& x, const FilteredLrelu& how) {
  std::ostringstream text;
  const auto sizes = [](const at::Tensor& f) {
    return f.defined() ? f.sizes() : at::IntArrayRef();
  };
  text << x.sizes() << " strides " << x.strides() << " " << x.scalar_type() << ", up " << how.up
       << " " << sizes(how.up_filter) << ", down " << how.down << " " << sizes(how.down_filter)
       << ", padding " << at::IntArrayRef(how.padding.data(), 4) << ", clamp " << how.clamp;
  return text.str();
}

at::Tensor random_maps(Dice& dice, at::ScalarType type) {
  const int64_t channels = dice.coin() ? 4 : 18;
  const int64_t height = 2 + dice.up_to(dice.coin() ? 12 : 45), width = 2 + dice.up_to(50);
  return random_strides(
      dice, at::randn({1 + dice.up_to(1), 1 + dice.up_to(channels), height, width}).to(type));
}

}  // namespace

TEST_CASE("FilteredLreluKernelsComputeWhatTheComposedOperatorDoes") {
  const WithCudaKernels table;
  Dice dice(21);
  int64_t known = 0;
  for (int64_t i = 0; i < 300; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kFloat, at::kHalf, at::kBFloat16});
    const at::Tensor x = random_maps(dice, type);
    const at::Tensor b = dice.coin() ? at::randn({x.size(1)}).to(type) : at::Tensor();
    const FilteredLrelu how = random_how(dice, x.sizes());
    INFO(i << ": " << described(x, how));
    const at::Tensor y = filtered_lrelu(x, b, how);
    REQUIRE(y.scalar_type() == type);
    const bool strips = has_strips(x, how);
    REQUIRE(y.is_contiguous(strips ? x.suggest_memory_format() : at::MemoryFormat::Contiguous));
    const WithKernels reference(KernelSet::kRef);
    const at::Tensor bias = b.defined() ? b.to(at::kDouble) : b;
    const double tolerance = epsilon_of(type) + 64 * epsilon_of(at::kFloat);
    CHECK(share_of_error(y, filtered_lrelu(x.to(at::kDouble), bias, how)) < tolerance);
    known += strips ? 1 : 0;
  }
  CHECK(known > 100);
}

TEST_CASE("FilteredLreluKernelsDerivativesAreThoseOfTheComposedOperator") {
  const WithCudaKernels table;
  Dice dice(22);
  for (int64_t i = 0; i < 150; ++i) {
    const at::Tensor x = random_maps(dice, at::kFloat);
    const at::Tensor b = at::randn({x.size(1)});
    const FilteredLrelu how = random_how(dice, x.sizes());
    INFO(i << ": " << described(x, how));
    const auto op = [&](const Tensors& in) { return filtered_lrelu(in[0], in[1], how); };
    CHECK(derivatives_error(op, {x, b}) < 1e-4);
  }
}

// A layer of StyleGAN3: factors, pads at the top and at the left, pads behind.
struct Layer {
  int64_t up, down, before, after;

  FilteredLrelu how() const {
    FilteredLrelu how{at::ones({6 * up}), at::ones({6 * down}), up, down};
    for (at::Tensor* f : {&how.up_filter, &how.down_filter}) {
      *f = at::rand(f->sizes()) + 0.1;
      *f = *f / f->sum();
    }
    how.padding = {before, after, before, after};
    how.clamp = 0.9;
    return how;
  }
};

TEST_CASE("StripsComputeEveryLayerOfStyleGan3") {
  const WithCudaKernels table;
  at::manual_seed(23);
  // Of T, then of R, with the last layer after the others of each; then a derivative as a layer.
  const Layer layers[] = {{2, 2, 9, 8},
                          {4, 2, -6, -9},
                          {2, 2, -11, -12},
                          {2, 2, 11, 10},
                          {4, 2, -2, -5},
                          {2, 2, -9, -10},
                          {2, 4, 40, 41}};
  // One strip and several along each axis; channels that fill a block, a part of one, and more.
  const std::array<int64_t, 3> shapes[] = {{8, 26, 36}, {3, 28, 60}, {11, 70, 30}};
  int64_t turn = 0;
  for (const Layer& layer : layers) {
    const FilteredLrelu how = layer.how();
    for (const auto& [channels, height, width] : shapes) {
      const auto format =
          ++turn % 2 == 0 ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
      const at::Tensor x = at::randn({1 + turn % 2, channels, height, width}).contiguous(format);
      INFO(described(x, how));
      REQUIRE(has_strips(x, how));
      const auto op = [&](const Tensors& in) { return filtered_lrelu(in[0], in[1], how); };
      CHECK(derivatives_error(op, {x, at::randn({channels})}) < 1e-4);
    }
  }
}

TEST_CASE("StripsKnowTheDerivativeOfWhatTheyKnow") {
  for (const auto& [up, down] : {std::pair<int64_t, int64_t>{2, 2}, {4, 2}, {2, 4}}) {
    for (int64_t before = -30; before < 60; ++before) {
      const Layer layer{up, down, before, 60};
      // As of a derivative by x of 40 x 40 pixels (filtered_lrelu.cpp).
      Layer back{down, up, 6 * up + 6 * down - 2 - before, 60};
      CAPTURE(up, down, before);
      const at::Tensor x = at::zeros({1, 1, 40, 40});
      CHECK(has_strips(x, layer.how()) == has_strips(x, back.how()));
    }
  }
}

TEST_CASE("StripsOfHalvesRoundOnce") {
  const WithCudaKernels table;
  at::manual_seed(24);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const FilteredLrelu how = Layer{2, 2, 9, 8}.how();
    const at::Tensor x =
        at::randn({2, 11, 40, 59}).to(type).contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor b = at::randn({11}).to(type);
    const at::Tensor y = filtered_lrelu(x, b, how);
    CHECK(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    const at::Tensor wide = filtered_lrelu(x.to(at::kFloat), b.to(at::kFloat), how);
    CHECK(y.equal(wide.to(type)));
  }
}

TEST_CASE("StripsHandNumbersOnThatAreNone") {
  const WithCudaKernels table;
  const FilteredLrelu how = Layer{2, 2, 9, 8}.how();
  at::Tensor x = at::zeros({1, 9, 40, 40});
  x[0][8][20][20] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor y = filtered_lrelu(x, {}, how);
  CHECK(y[0][8].isnan().any().item<bool>());
  CHECK(!y.narrow(1, 0, 8).isnan().any().item<bool>());
}

TEST_CASE("FilteredLreluKernelsKeepTwoBitsForEachSample") {
  const FilteredLrelu how{at::ones({12}) / 12, at::ones({12}) / 12, 2, 2, {9, 8, 9, 8}};
  FilteredLreluCall strips(at::zeros({2, 11, 38, 38}), {}, {how});
  strips.write_slopes();
  CHECK(strips.arguments.mid_h() == 82);
  CHECK(strips.slopes.sizes() == at::IntArrayRef({4, 21, 82, 8}));
  FilteredLrelu odd = how;
  odd.padding = {8, 9, 8, 9};
  FilteredLreluCall tiles(at::zeros({2, 3, 38, 38}), {}, {odd});
  tiles.write_slopes();
  CHECK(tiles.slopes.sizes() == at::IntArrayRef({6, 82, 21}));
}
