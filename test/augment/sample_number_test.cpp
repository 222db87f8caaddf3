// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "augment/sample_values.h"
#include "core/torch.h"

using namespace gantrain;

namespace {

// A formula with every operation; x and y lie in (0, 1).
template <class Number>
Number everything(const Number& x, const Number& y) {
  using std::abs, std::cos, std::exp2, std::floor, std::nearbyint, std::sin, std::sqrt;
  const Number sums = (x + y) - (x - 3) + (2 - y) + (x + 1) - 0 + (0 + y);
  const Number products = x * y * 3 / y + 2 / (x + 1) + 0 * x + 1 * y + x * 1 - (-x);
  const Number functions = abs(x - y) + cos(x) + exp2(y * 3) + floor(5 * x) + sin(y) + sqrt(x);
  return sums + products / 7 + functions + nearbyint(9 * y) + clamped_to_unit(3 * x - 1);
}

}  // namespace

TEST_CASE("SampleNumbersComputeWhatDoublesDo") {
  const std::vector<double> x = {.1, .35, .5, .99}, y = {.9, .25, .125, .6};
  const SampleNumber xs(torch::tensor(x, at::kDouble)), ys(torch::tensor(y, at::kDouble));
  const at::Tensor all = everything(xs, ys).each();
  const at::Tensor half_known = everything(xs, SampleNumber(.3)).each();
  for (size_t i = 0; i < x.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    CHECK(all[n].item<double>() == Approx(everything(x[i], y[i])).epsilon(1e-14));
    CHECK(half_known[n].item<double>() == Approx(everything(x[i], .3)).epsilon(1e-14));
    const SampleNumber known = everything(SampleNumber(x[i]), SampleNumber(y[i]));
    REQUIRE(known.is_known());
    CHECK(known.known() == everything(x[i], y[i]));
  }
}

TEST_CASE("HalfWayCasesAreRoundedToEven") {
  const std::vector<double> x = {.5, 1.5, 2.5, -.5, -1.5};
  const at::Tensor rounded = nearbyint(SampleNumber(torch::tensor(x, at::kDouble))).each();
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(rounded[static_cast<int64_t>(i)].item<double>() == std::nearbyint(x[i]));
  }
}

TEST_CASE("ZerosAndOnesNeedNoOperatorOnTheDevice") {
  const SampleNumber x(torch::rand({3}, at::kDouble));
  for (const SampleNumber& same : {x + 0, 0 + x, x - 0, x * 1, 1 * x}) {
    CHECK(same.each().is_same(x.each()));
  }
  CHECK((x * 0).is_known());
  CHECK((0 / x).is_known());
  CHECK(is_never(x * 0));
  CHECK_FALSE(is_never(x));
}

TEST_CASE("ColumnsHoldKnownAndUnknownNumbers") {
  const at::Tensor x = torch::rand({3}, at::kDouble);
  const std::vector<SampleNumber> values = {1, SampleNumber(x), 0, SampleNumber(x[0]), 1};
  const at::Tensor columns = as_columns(values, 3, torch::zeros({1}, at::kFloat));
  CHECK(columns.sizes() == at::IntArrayRef({3, 5}));
  CHECK(columns.scalar_type() == at::kDouble);
  CHECK(at::equal(columns.select(1, 1), x));
  CHECK(at::equal(columns.select(1, 3), x[0].expand({3})));
  CHECK(at::equal(columns.select(1, 4), torch::ones({3}, at::kDouble)));
  CHECK(columns.select(1, 2).abs().sum().item<double>() == 0);
}
