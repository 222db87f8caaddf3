// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "ops/norms/norms.h"
#include "support/float32_checks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("TheStyleSetsMeanAndDeviation") {
  const at::Tensor x = torch::randn({3, 4, 8, 8}, at::kDouble) * 5 + 2;
  const at::Tensor style = torch::randn({3, 8}, at::kDouble);
  const at::Tensor y = adain(x, style);
  CHECK(torch::allclose(y.mean({2, 3}), style.narrow(1, 4, 4)));
  CHECK(torch::allclose(
      y.var({2, 3}, /*unbiased=*/false).sqrt(), (1 + style.narrow(1, 0, 4)).abs(), 1e-6));
  CHECK(torch::allclose(y, modulate(instance_norm(x), style)));
}

TEST_CASE("ScaleAndOffsetOfTheInputDoNotMatter") {
  const at::Tensor x = torch::randn({2, 3, 4, 4}, at::kDouble);
  const at::Tensor style = torch::randn({2, 6}, at::kDouble);
  CHECK(torch::allclose(adain(x * 7 - 3, style), adain(x, style), 1e-6, 1e-6));
}

TEST_CASE("AConstantChannelBecomesItsShiftAndItsGradientsStayFinite") {
  const at::Tensor x = torch::ones({1, 2, 4, 4}).requires_grad_(true);
  const at::Tensor style = torch::tensor({{0.5f, 1.f, 2.f, 3.f}});
  const at::Tensor y = adain(x, style);
  CHECK(torch::allclose(y.mean({2, 3}), style.narrow(1, 2, 2)));
  y.square().sum().backward();
  CHECK(torch::isfinite(x.grad()).all().item<bool>());
}

TEST_CASE("HalfPrecisionTakesItsStatisticsInFloat") {
  const at::Tensor x = torch::randn({2, 3, 16, 16}) * 1e-3;
  const at::Tensor style = torch::randn({2, 6});
  const at::Tensor y = adain(x.to(at::kBFloat16), style.to(at::kBFloat16));
  CHECK(y.scalar_type() == at::kBFloat16);
  const at::Tensor exact =
      adain(x.to(at::kBFloat16).to(at::kFloat), style.to(at::kBFloat16).to(at::kFloat));
  CHECK(scaled_error(y, exact) < 5e-3);  // one rounding of the result
}

TEST_CASE("AStyleOfTheWrongWidthIsRefused") {
  CHECK_THROWS_WITH(adain(torch::ones({1, 3, 4, 4}), torch::ones({1, 4})),
                    Catch::Contains("[N, 6]"));
}

TEST_CASE("TheFusedAdainAndItsDerivativesMatchFloat64") {
  const auto f = [](const Tensors& in) { return adain(in[0], in[1]); };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3, 4, 4}, {1, 2, 5, 7}, {2, 2, 70, 70}}) {
    CAPTURE(shape);
    torch::manual_seed(4);
    const Tensors inputs = {torch::randn(shape, at::kDouble) * 2 + 1,
                            torch::randn({shape[0], 2 * shape[1]}, at::kDouble)};
    CHECK(float32_error(f, inputs, 3) < 1e-5);
  }
}

TEST_CASE("AdainDoesNotDependOnTheNumberOfThreads") {
  const auto f = [](const Tensors& in) { return adain(in[0], in[1]); };
  CHECK(threads_agree(f, {torch::randn({3, 40, 33, 31}), torch::randn({3, 80})}));
}
