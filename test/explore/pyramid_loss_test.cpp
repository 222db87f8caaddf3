// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/tensors.h"
#include "core/torch.h"
#include "explore/projector.h"

namespace gantrain {
namespace {

at::Tensor pictures(const std::string& purpose, int64_t height = 16, int64_t width = 8) {
  return normal_like(torch::empty({2, 3, height, width}), 1, purpose);
}

const at::Tensor kBoth = torch::arange(2);

}  // namespace

TEST_CASE("TheLossOfTheTargetIsZeroAndOfNothingElse") {
  const at::Tensor targets = pictures("a");
  const PyramidLoss loss(targets);
  CHECK(loss(targets, kBoth).equal(torch::zeros({2})));
  CHECK(loss(pictures("b"), kBoth).min().item<double>() > 0);
}

TEST_CASE("RowsChooseTheTarget") {
  const at::Tensor targets = pictures("a");
  const PyramidLoss loss(targets);
  const at::Tensor swapped = loss(targets.flip(0), torch::tensor({1, 0}));
  CHECK(swapped.equal(torch::zeros({2})));
  CHECK(loss(targets.flip(0), kBoth).min().item<double>() > 0);
}

TEST_CASE("BeyondBlackAndWhiteNothingCounts") {
  const at::Tensor row = torch::zeros({1}, at::kLong);
  const at::Tensor white = torch::ones({1, 1, 8, 8});
  CHECK(PyramidLoss(white)(white * 1.7, row).item<double>() == 0);
  CHECK(PyramidLoss(-white)(white * -1.7, row).item<double>() == 0);
  CHECK(PyramidLoss(white)(white * -1.7, row).item<double>() > 0);
  CHECK(PyramidLoss(white * 0.9)(white * 1.7, row).item<double>() > 0);
}

TEST_CASE("EveryScaleCounts") {
  const at::Tensor targets = torch::zeros({1, 1, 8, 8});
  const PyramidLoss loss(targets);
  const at::Tensor row = torch::zeros({1}, at::kLong);
  // A checkerboard is gone at half the size; a flat change is seen on both levels, 8 and 4.
  const at::Tensor line = torch::arange(8).remainder(2).to(at::kFloat) * 2 - 1;
  const at::Tensor board = (line.view({8, 1}) * line).view({1, 1, 8, 8});
  CHECK(loss(board, row).item<double>() == Approx(1));
  CHECK(loss(torch::ones_like(board), row).item<double>() == Approx(2));
}

}  // namespace gantrain
