// SPDX-License-Identifier: Apache-2.0
#include "nn/tensorflow_layout.h"

#include <catch2/catch.hpp>

#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("ThereAndBackIsNothing") {
  const at::Tensor conv = torch::randn({3, 3, 5, 7});
  for (const TfLayout layout :
       {TfLayout::kSame, TfLayout::kConv, TfLayout::kMirroredConv, TfLayout::kTransposedConv})
    CHECK(torch::equal(to_tensorflow(from_tensorflow(conv, layout), layout), conv));
  const at::Tensor dense = torch::randn({5, 7});
  CHECK(torch::equal(to_tensorflow(from_tensorflow(dense, TfLayout::kDense), TfLayout::kDense),
                     dense));
}

TEST_CASE("AxesGoWhereTorchHasThem") {
  at::Tensor v = torch::zeros({3, 3, 5, 7});
  v[0][1][2][4] = 1;
  CHECK(from_tensorflow(v, TfLayout::kConv)[4][2][0][1].item<float>() == 1);
  CHECK(from_tensorflow(v, TfLayout::kMirroredConv)[4][2][2][1].item<float>() == 1);
  CHECK(from_tensorflow(v, TfLayout::kTransposedConv)[2][4][2][1].item<float>() == 1);
  CHECK(from_tensorflow(torch::zeros({5, 7}), TfLayout::kDense).sizes() == at::IntArrayRef({7, 5}));
}

TEST_CASE("NamesChangePrefixAndSeparators") {
  const LayoutOf same = [](const std::string& name, const at::Tensor&) {
    CHECK(name == "4x4/Conv/weight");
    return TfLayout::kSame;
  };
  const TensorMap variables = {{"G/4x4/Conv/weight", torch::ones({1})},
                               {"D/4x4/Conv/weight", torch::zeros({1})}};
  const TensorMap parameters = from_official(variables, "D/", "D.", same);
  REQUIRE(parameters.size() == 1);
  CHECK(parameters.at("D.4x4.Conv.weight").item<float>() == 0);
  const TensorMap back = to_official(parameters, "D.", "D/", same);
  REQUIRE(back.size() == 1);
  CHECK(back.count("D/4x4/Conv/weight") == 1);
}
