// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "ops/modulation/modulated_conv2d.h"
#include "support/float32_checks.h"

using namespace gantrain;

TEST_CASE("SumsOfSquaresAndTheirDerivativesMatchFloat64") {
  const auto f = [](const Tensors& in) { return square_sums(in[0]); };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 5, 3, 3}, {3, 2, 1, 1}, {2, 3, 4, 4}, {0, 3, 3, 3}}) {
    CAPTURE(shape);
    torch::manual_seed(1);
    const Tensors w = {torch::randn(shape, at::kDouble)};
    const double error = shape[0] == 0 ? 0 : float32_error(f, w, 3);
    CHECK(error < 2e-6);
    CHECK(f({w[0].to(at::kFloat)}).sizes() == at::IntArrayRef({shape[0], shape[1]}));
  }
}

TEST_CASE("SumsOfSquaresDoNotDependOnTheNumberOfThreads") {
  const auto f = [](const Tensors& in) { return square_sums(in[0]); };
  CHECK(threads_agree(f, {torch::randn({64, 96, 3, 3})}));
}
