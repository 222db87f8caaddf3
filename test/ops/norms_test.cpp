// SPDX-License-Identifier: Apache-2.0
#include "ops/norms/norms.h"

#include "ops/cases.h"
#include "support/catch.h"
#include "support/float32_checks.h"
#include "support/gradient_checks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("TheStyleSetsMeanAndDeviation") {
  const at::Tensor x = torch::randn({3, 4, 8, 8}, at::kDouble) * 5 + 2;
  const at::Tensor style = torch::randn({3, 8}, at::kDouble);
  const at::Tensor y = adain(x, style);
  CHECK(torch::allclose(y.mean({2, 3}), style.narrow(1, 4, 4)));
  CHECK(torch::allclose(
      y.var({2, 3}, /*unbiased=*/false).sqrt(), (1 + style.narrow(1, 0, 4)).abs(), 1e-6));
  const at::Tensor centred = x - x.mean({2, 3}, true);
  const at::Tensor n = centred / (centred.square().mean({2, 3}, true) + 1e-8).sqrt();
  const auto halves = style.view({3, 2, 4, 1, 1}).unbind(1);
  CHECK(torch::allclose(y, n * (1 + halves[0]) + halves[1]));
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

TEST_CASE("MinibatchStdMatchesReference") {
  for_each_case("ops_layers", {"minibatch_stddev"}, [](OperatorCase& c) {
    const at::Tensor x = c.leaf("x");
    const auto& group = c.what["group_size"];
    const at::Tensor y = minibatch_std(
        x, group.is_null() ? x.size(0) : group.get<int64_t>(), c.what["num_channels"]);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}});
  });
}

TEST_CASE("MinibatchStdsDerivativesMatchDifferences") {
  for (const auto& [group, channels] : {std::pair{3, 1}, std::pair{2, 2}, std::pair{9, 4}}) {
    const auto y = [g = group, c = channels](const Tensors& in) {
      return minibatch_std(in[0], g, c);
    };
    // Samples apart from each other: near equal ones the root's third derivative is too large for
    // differences.
    const at::Tensor apart = 2 * torch::arange(6, at::kDouble).reshape({6, 1, 1, 1});
    const Tensors x = {torch::randn({6, 4, 3, 1}, at::kDouble) + apart};
    CHECK(gradient_error(y, x) < kGradientTolerance);
    CHECK(second_gradient_error(y, x) < kGradientTolerance);
  }
}

TEST_CASE("EqualSamplesHaveAlmostNoDeviation") {
  const at::Tensor y = minibatch_std(torch::randn({1, 3, 2, 2}).repeat({4, 1, 1, 1}), 4);
  CHECK(scaled_error(y.select(1, 3), torch::full({4, 2, 2}, 1e-4)) < 1e-5);
}

TEST_CASE("GroupsAreStrided") {
  // Samples 0 and 2 differ, 1 and 3 are equal: only the first group's map is not 0.
  const at::Tensor x = torch::tensor({0.f, 5.f, 2.f, 5.f}).reshape({4, 1, 1, 1});
  const at::Tensor maps = minibatch_std(x, 2).select(1, 1).flatten();
  CHECK(scaled_error(maps, torch::tensor({1.f, 1e-4f, 1.f, 1e-4f})) < 1e-6);
}

TEST_CASE("HalfTypesAreMeasuredInFloat32") {
  const at::Tensor x = (torch::randn({4, 2, 4, 4}) * 1000).to(at::kHalf);  // squares overflow
  const at::Tensor y = minibatch_std(x, 4);
  CHECK(y.scalar_type() == at::kHalf);
  CHECK(scaled_error(y, minibatch_std(x.to(at::kFloat), 4)) < 1e-3);
}

TEST_CASE("AGroupIsTheLargestPartOfTheBatchUpToItsSize") {
  for (const auto& [samples, group, taken] :
       {std::tuple{10, 4, 2}, {6, 4, 3}, {7, 4, 1}, {9, 4, 3}, {12, 4, 4}, {3, 4, 3}, {1, 4, 1}}) {
    CAPTURE(samples, group);
    const at::Tensor x = torch::randn({samples, 2, 2, 2});
    // Samples n, n + N/g, n + 2N/g, ... share one map.
    const at::Tensor deviation = (x.reshape({taken, samples / taken, 2, 2, 2}).var(0, false) + 1e-8)
                                     .sqrt()
                                     .mean({1, 2, 3})
                                     .repeat({taken});
    const at::Tensor maps = minibatch_std(x, group).select(1, 2);
    CHECK(scaled_error(maps, deviation.reshape({-1, 1, 1}).expand({samples, 2, 2})) < 1e-6);
  }
}

TEST_CASE("MinibatchStdRefusesChannelsThatAreNoMultipleAndEmptyGroups") {
  CHECK_THROWS(minibatch_std(torch::ones({4, 3, 1, 1}), 4, 2));
  CHECK_THROWS(minibatch_std(torch::ones({4, 2, 1, 1}), 0));
}

TEST_CASE("TheFusedDeviationsAndTheirDerivativesMatchFloat64") {
  for (const auto& [n, c, h, w, group, channels] : {std::tuple{6, 4, 3, 1, 3, 1},
                                                    std::tuple{4, 6, 4, 4, 4, 3},
                                                    std::tuple{8, 5, 4, 4, 4, 1},
                                                    std::tuple{1, 2, 3, 5, 4, 1}}) {
    CAPTURE(n, c, group, channels);
    torch::manual_seed(2);
    const auto f = [g = group, m = channels](const Tensors& in) {
      return minibatch_std(in[0], g, m);
    };
    const at::Tensor apart = torch::arange(n, at::kDouble).reshape({n, 1, 1, 1});
    CHECK(float32_error(f, {torch::randn({n, c, h, w}, at::kDouble) + apart}, 3) < 1e-5);
  }
}

TEST_CASE("DeviationsDoNotDependOnTheNumberOfThreads") {
  const auto f = [](const Tensors& in) { return minibatch_std(in[0], 4, 2); };
  CHECK(threads_agree(f, {torch::randn({8, 256, 8, 8})}));
}
