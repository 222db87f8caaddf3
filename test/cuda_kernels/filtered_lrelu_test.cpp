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

// Half of them of the shapes that have bodies of their own; crops, pads, sizes that fit nothing.
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
  for (const int64_t axis : {1, 0}) {
    const int64_t pixels = sizes[2 + axis] * how.up, at = axis == 1 ? 0 : 2;
    how.padding[at] = std::max(dice.up_to(15) - 5, -(pixels - 1) / 2);
    how.padding[at + 1] = std::max(dice.up_to(15) - 5, -(pixels - 1) / 2);
    const int64_t least = taps(how.up_filter, axis) + taps(how.down_filter, axis) - 1;
    const int64_t missing = least - pixels - how.padding[at] - how.padding[at + 1];
    how.padding[at + 1] += std::max<int64_t>(missing, 0);
  }
  return how;
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
  const int64_t height = 2 + dice.up_to(dice.coin() ? 12 : 45), width = 2 + dice.up_to(50);
  return random_strides(dice,
                        at::randn({1 + dice.up_to(1), 1 + dice.up_to(4), height, width}).to(type));
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
    REQUIRE(y.is_contiguous());
    const WithKernels reference(KernelSet::kRef);
    const at::Tensor bias = b.defined() ? b.to(at::kDouble) : b;
    const double tolerance = epsilon_of(type) + 64 * epsilon_of(at::kFloat);
    CHECK(share_of_error(y, filtered_lrelu(x.to(at::kDouble), bias, how)) < tolerance);
    known += cuda_kernels::has_known_shape(FilteredLreluCall(x, {}, {how}).arguments) ? 1 : 0;
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

TEST_CASE("FilteredLreluKernelsKeepTwoBitsForEachSample") {
  const FilteredLrelu how{at::ones({12}) / 12, at::ones({12}) / 12, 2, 2, {9, 8, 9, 8}};
  FilteredLreluCall call(at::zeros({2, 3, 38, 38}), {}, {how});
  call.write_slopes();
  CHECK(call.arguments.mid_h() == 82);
  CHECK(call.slopes.sizes() == at::IntArrayRef({6, 82, 21}));
}
