// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "augment/wavelets.h"

using namespace gantrain;

namespace {

constexpr Padding2d kMargins{.x0 = 3, .x1 = 0, .y0 = 7, .y1 = 9};

at::Tensor back_and_forth(const at::Tensor& x, FilterRoute route) {
  return sym6_halved(sym6_doubled(x, kMargins, route), route);
}

}  // namespace

TEST_CASE("MatricesAndFiltersResampleAlike") {
  const at::Tensor x = pictures(2, 3, 10, 13);
  const at::Tensor fine = sym6_doubled(x, kMargins, FilterRoute::kFilter);
  CHECK(fine.sizes() == at::IntArrayRef({2, 3, 2 * (10 + 16), 2 * (13 + 3)}));
  CHECK(difference(sym6_doubled(x, kMargins, FilterRoute::kMatrices), fine) < 1e-12);
  CHECK(difference(sym6_halved(fine, FilterRoute::kMatrices),
                   sym6_halved(fine, FilterRoute::kFilter)) < 1e-12);
}

TEST_CASE("BothRoutesHaveTheSameDerivatives") {
  std::vector<at::Tensor> gradients, seconds;
  const at::Tensor v = pictures(2, 3, 20, 10), u = pictures(2, 3, 10, 13).cos();
  for (const FilterRoute route : {FilterRoute::kFilter, FilterRoute::kMatrices}) {
    const at::Tensor x = pictures(2, 3, 10, 13).requires_grad_(true);
    const at::Tensor w = v.clone().requires_grad_(true);
    const at::Tensor y = back_and_forth(x, route);
    REQUIRE(y.sizes() == w.sizes());
    gradients.push_back(torch::autograd::grad({y}, {x}, {w}, true, true)[0]);
    seconds.push_back(torch::autograd::grad({gradients.back()}, {w}, {u})[0]);
  }
  CHECK(difference(gradients[0], gradients[1]) < 1e-12);
  CHECK(difference(seconds[0], seconds[1]) < 1e-12);
}

TEST_CASE("DoublingAndHalvingGiveTheMirroredPictureBack") {
  const at::Tensor x = torch::randn({1, 2, 10, 13}, at::kDouble);
  const at::Tensor y = back_and_forth(x, FilterRoute::kMatrices);
  const at::Tensor mirrored =
      at::reflection_pad2d(x, {kMargins.x0, kMargins.x1, kMargins.y0, kMargins.y1});
  const auto inner = [](const at::Tensor& all, int64_t crop) {
    return all.slice(2, crop, all.size(2) - crop).slice(3, crop, all.size(3) - crop);
  };
  CHECK(difference(inner(y, 3), inner(mirrored, 3 + kSym6Cropped)) < 1e-6);
}

TEST_CASE("EachSampleCanHaveItsOwnMatrices") {
  const at::Tensor x = pictures(2, 3, 4, 5).requires_grad_(true);
  const at::Tensor rows = torch::randn({2, 1, 4, 6}, at::kDouble);
  const at::Tensor columns = torch::randn({2, 1, 5, 3}, at::kDouble);
  const at::Tensor y = on_both_axes(x, rows, columns);
  const at::Tensor expected =
      at::einsum("nchw,nhy,nwx->ncyx", {x, rows.squeeze(1), columns.squeeze(1)});
  CHECK(difference(y, expected) < 1e-12);
  const at::Tensor dy = torch::randn_like(y);
  CHECK(difference(torch::autograd::grad({y}, {x}, {dy})[0],
                   torch::autograd::grad({expected}, {x}, {dy})[0]) < 1e-12);
}

TEST_CASE("MarginsKnownToTheDeviceAloneGiveTheSamePictureInALargerOne") {
  const at::Tensor x = pictures(2, 3, 10, 13);
  for (const Padding2d& m : {kMargins, Padding2d{}, Padding2d{12, 12, 9, 9}}) {
    const at::Tensor margins = torch::tensor({m.x0, m.x1, m.y0, m.y1}, at::kDouble);
    const at::Tensor within = sym6_doubled_within(x, margins);
    const at::Tensor alone = sym6_doubled(x, m, FilterRoute::kFilter);
    REQUIRE(within.sizes() == at::IntArrayRef({2, 3, 2 * 28, 2 * 37}));
    const at::Tensor around = at::constant_pad_nd(
        alone, {2 * (12 - m.x0), 2 * (12 - m.x1), 2 * (9 - m.y0), 2 * (9 - m.y1)});
    CHECK(difference(within, around) < 1e-14);
  }
}
