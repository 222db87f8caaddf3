// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "ops/cases.h"
#include "ops/norms/norms.h"
#include "support/float32_checks.h"
#include "support/gradient_checks.h"

using namespace gantrain;

TEST_CASE("PixelNormMatchesReference") {
  for_each_case("ops_layers", {"normalize_2nd_moment"}, [](OperatorCase& c) {
    const at::Tensor x = c.leaf("x");
    const at::Tensor y = pixel_norm(x, c.what["eps"], c.what["dim"]);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}});
  });
}

TEST_CASE("EveryLayerOfTheFixtureHasATest") {
  const auto cases = nlohmann::json::parse(fixture("ops_layers").metadata.at("cases"));
  const std::set<std::string> tested = {
      "normalize_2nd_moment", "minibatch_stddev", "fully_connected"};
  for (const auto& [name, what] : cases.items()) {
    CAPTURE(name);
    CHECK(tested.count(what.at("op")) == 1);
  }
}

TEST_CASE("PixelNormsDerivativesMatchDifferences") {
  const auto y = [](const Tensors& in) { return pixel_norm(in[0], 1e-8, 1); };
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 5}, {2, 3, 2, 5}}) {
    const Tensors x = {torch::randn(shape, at::kDouble)};
    CHECK(gradient_error(y, x) < kGradientTolerance);
    CHECK(second_gradient_error(y, x) < kGradientTolerance);
  }
}

TEST_CASE("PixelNormLeavesUnitMeanSquare") {
  const at::Tensor y = pixel_norm(torch::randn({2, 7, 3, 3}) * 40);
  CHECK(scaled_error(y.square().mean(1), torch::ones({2, 3, 3})) < 1e-5);
  const at::Tensor half = pixel_norm(torch::full({1, 4}, 3e4, at::kHalf));  // squares overflow
  CHECK(scaled_error(half, torch::ones({1, 4})) < 1e-3);
}

TEST_CASE("TheFusedPixelNormAndItsDerivativesMatchFloat64") {
  const auto f = [](const Tensors& in) { return pixel_norm(in[0]); };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3, 4, 4}, {1, 7, 5, 3}, {2, 5, 33, 41}, {3, 2, 1, 1}}) {
    CAPTURE(shape);
    torch::manual_seed(3);
    CHECK(float32_error(f, {torch::randn(shape, at::kDouble) + 0.5}, 3) < 1e-5);
  }
}

TEST_CASE("PixelNormDoesNotDependOnTheNumberOfThreads") {
  const auto f = [](const Tensors& in) { return pixel_norm(in[0]); };
  CHECK(threads_agree(f, {torch::randn({3, 40, 33, 31})}));
}
