// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d.h"

#include <algorithm>

#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "ops/device_kernels.h"
#include "ops/gpu/table_cuda.h"
#include "ops/upfirdn2d/upfirdn2d_cuda.h"
#include "support/catch.h"

using namespace gantrain;
using cuda_kernels::FirBody;

namespace {

struct Resampling {
  at::Tensor f;
  UpFirDn how;
};

// Filters of the shapes that have bodies of their own, and others.
at::Tensor filter_of(Dice& dice, UpFirDn& how) {
  const auto random = [](int64_t h, int64_t w) { return at::randn({h, w}, at::kFloat); };
  const int64_t kind = dice.up_to(9);
  if (kind < 6) {
    const int64_t scale = 1 + dice.up_to(1);
    (dice.coin() ? how.up : how.down) = {scale, scale};
    return random(4, 4);
  }
  if (kind < 8) {
    const bool along_x = dice.coin();
    Scale2d& scale = dice.coin() ? how.up : how.down;
    (along_x ? scale.x : scale.y) = 2;
    return along_x ? random(1, 12) : random(12, 1);
  }
  how.up = {1 + dice.up_to(3), 1 + dice.up_to(3)};
  how.down = {1 + dice.up_to(3), 1 + dice.up_to(3)};
  return random(1 + dice.up_to(23), 1 + dice.up_to(23));
}

Resampling resampling(Dice& dice, const at::Tensor& x) {
  Resampling r;
  r.f = filter_of(dice, r.how);
  r.how.flip_filter = dice.coin();
  r.how.gain = dice.coin() ? 1 : 3.25;
  // The composed operator crops no more than there is.
  const auto pad = [&](int64_t taps, int64_t pixels) {
    return std::max(dice.up_to(taps + 3) - 2, -(pixels - 1) / 2);
  };
  const int64_t rows = x.size(2) * r.how.up.y, columns = x.size(3) * r.how.up.x;
  r.how.padding.x0 = pad(r.f.size(1), columns);
  r.how.padding.x1 = pad(r.f.size(1), columns);
  r.how.padding.y0 = pad(r.f.size(0), rows);
  r.how.padding.y1 = pad(r.f.size(0), rows);
  // At least one pixel must be left.
  const auto left = [&] { return resampled_size(x.sizes(), r.f.sizes(), r.how); };
  while (left().x < 1) r.how.padding.x1 += r.how.down.x;
  while (left().y < 1) r.how.padding.y1 += r.how.down.y;
  return r;
}

at::Tensor expected(const at::Tensor& x, const Resampling& r) {
  return kComposedKernels.upfirdn2d(x.to(at::kDouble), r.f.to(at::kDouble), r.how);
}

// The error, as a share of the largest sum of magnitudes that an output is summed from.
double error_of(const at::Tensor& y, const at::Tensor& x, const Resampling& r) {
  UpFirDn magnitudes = r.how;
  magnitudes.gain = std::abs(r.how.gain);
  const double scale = expected(x.abs(), {r.f.abs(), magnitudes}).max().item<double>();
  const at::Tensor exact = expected(x, r);
  REQUIRE(y.sizes() == exact.sizes());
  const double error = (y.to(at::kDouble) - exact).abs().max().item<double>();
  return error / std::max(scale, 1e-30);
}

// A rounding of the result and, in the wide type, of each product and sum.
double fir_tolerance(at::ScalarType type) { return epsilon_of(type) + 16 * epsilon_of(at::kFloat); }

FirBody body_of(const at::Tensor& x, const Resampling& r) {
  return cuda_kernels::fir_choice(UpFirDnCall(x, r.f, r.how).arguments).body;
}

}  // namespace

TEST_CASE("FilterKernelsSumWhatTheComposedOperatorSums") {
  Dice dice(1);
  int64_t of_body[4] = {};
  // Until each body has had enough draws.
  constexpr int64_t kDraws = 60;
  const auto fewest = [&] { return *std::min_element(std::begin(of_body), std::end(of_body)); };
  for (int64_t i = 0; i < 2400 && fewest() < kDraws; ++i) {
    const auto type = dice.one_of({at::kFloat, at::kHalf, at::kBFloat16, at::kFloat, at::kDouble});
    const int64_t channels = dice.one_of({1, 3, 4, 8, 16, 24, 40});
    const int64_t height = 1 + dice.up_to(29), width = 1 + dice.up_to(dice.coin() ? 20 : 120);
    const at::Tensor x =
        random_strides(dice, at::randn({1 + dice.up_to(2), channels, height, width}).to(type));
    const Resampling r = resampling(dice, x);
    INFO(i << ": " << x.sizes() << " strides " << x.strides() << " " << x.scalar_type() << ", f "
           << r.f.sizes() << ", up " << r.how.up.y << " " << r.how.up.x << ", down " << r.how.down.y
           << " " << r.how.down.x << ", pad " << r.how.padding.x0 << " " << r.how.padding.x1 << " "
           << r.how.padding.y0 << " " << r.how.padding.y1);
    const at::Tensor y = cuda_upfirdn2d(x, r.f, r.how);
    REQUIRE(y.scalar_type() == type);
    REQUIRE(y.is_contiguous(x.suggest_memory_format()));
    REQUIRE(error_of(y, x, r) < fir_tolerance(type));
    ++of_body[static_cast<int>(body_of(x, r))];
  }
  CHECK(fewest() == kDraws);
}

TEST_CASE("FilterKernelsSeeFloat64AsItIs") {
  Dice dice(2);
  for (int64_t i = 0; i < 50; ++i) {
    const at::Tensor x = at::randn({2, 3, 1 + dice.up_to(20), 1 + dice.up_to(20)}, at::kDouble);
    Resampling r = resampling(dice, x);
    r.f = r.f.to(at::kDouble) / 3;
    CHECK(error_of(cuda_upfirdn2d(x, r.f, r.how), x, r) < 1e-14);
  }
}

TEST_CASE("FilterKernelsDerivativesAreThoseOfTheComposedOperator") {
  const WithCudaKernels table;
  Dice dice(3);
  for (int64_t i = 0; i < 200; ++i) {
    const at::Tensor x =
        random_strides(dice, at::randn({2, 8, 1 + dice.up_to(20), 1 + dice.up_to(80)}));
    const Resampling r = resampling(dice, x);
    const auto op = [&](const Tensors& in) { return upfirdn2d(in[0], r.f, r.how); };
    INFO(i << ": " << x.sizes() << ", f " << r.f.sizes());
    CHECK(derivatives_error(op, {x}) < 1e-4);
  }
}

TEST_CASE("CommonFilterShapesRunOnSixteenByteBodies") {
  const auto four = at::ones({4, 4});
  const std::vector<UpFirDn> common = {{{1, 1}, {1, 1}, {2, 1, 2, 1}},
                                       {{1, 1}, {1, 1}, {2, 2, 2, 2}},
                                       {{2, 2}, {1, 1}, {2, 1, 2, 1}},
                                       {{1, 1}, {2, 2}, {1, 1, 1, 1}}};
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const UpFirDn& how : common) {
      for (const int64_t size : {64, 256}) {
        const at::Tensor x = at::zeros({2, 32, size, size}, type);
        const int64_t out = resampled_size(x.sizes(), four.sizes(), how).x;
        const cuda_kernels::FirChoice choice =
            cuda_kernels::fir_choice(UpFirDnCall(x, four, how).arguments);
        CHECK(choice.body == (out <= 64 ? FirBody::kSmallPlanes : FirBody::kPlanes));
        CHECK(choice.direct == (out % 8 == 0));
        CHECK(body_of(x.contiguous(at::MemoryFormat::ChannelsLast), {four, how}) ==
              FirBody::kPixels);
      }
    }
  }
}
