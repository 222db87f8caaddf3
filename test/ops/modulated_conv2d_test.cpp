// SPDX-License-Identifier: Apache-2.0
#include "ops/modulation/modulated_conv2d.h"

#include <catch2/catch.hpp>

#include "ops/cases.h"
#include "support/gradient_checks.h"

using namespace gantrain;

TEST_CASE("ModulatedConvMatchesReference") {
  for_each_case("ops_modulated_conv2d", {"modulated_conv2d"}, [](OperatorCase& c) {
    const ModulatedConv how{c.what["up"],
                            c.what["down"],
                            c.what["padding"],
                            c.what["demodulate"],
                            c.what["flip_weight"],
                            c.what["fused_modconv"]};
    REQUIRE(c["noise"].defined() == c.what["noise"].get<bool>());
    const at::Tensor x = c.leaf("x"), weight = c.leaf("weight"), styles = c.leaf("styles");
    const at::Tensor y = modulated_conv2d(x, weight, styles, c["noise"], c["f"], how);
    c.check("y", y);
    c.check_gradients(y, {{"x", x}, {"weight", weight}, {"styles", styles}});
  });
}

TEST_CASE("ModulatedConvsDerivativesMatchDifferences") {
  const at::Tensor f = torch::randn({4, 4}, at::kDouble);
  for (const ModulatedConv& how : {ModulatedConv{2, 1, 1, true, false, true},
                                   ModulatedConv{2, 1, 1, true, false, false},
                                   ModulatedConv{1, 2, 1, true, true, false},
                                   ModulatedConv{1, 1, 2, false, true, true}}) {
    const auto y = [&](const Tensors& in) {
      return modulated_conv2d(in[0], in[1], in[2], in[3], f, how);
    };
    CAPTURE(how.up, how.down, how.fused);
    const at::Tensor x = torch::randn({2, 1, 5, 7}, at::kDouble),
                     w = torch::randn({3, 1, 3, 3}, at::kDouble),
                     s = torch::rand({2, 1}, at::kDouble) + 0.5;
    const at::Tensor noise =
        torch::randn_like(modulated_conv2d(x, w, s, {}, f, how).select(1, 0).unsqueeze(1));
    CHECK(gradient_error(y, {x, w, s, noise}) < kGradientTolerance);
    CHECK(second_gradient_error(y, {x, w, s, noise}) < kGradientTolerance);
  }
}

TEST_CASE("DemodulatedOutputsHaveUnitVariance") {
  const at::Tensor x = torch::randn({4, 32, 24, 24}), w = torch::randn({16, 32, 3, 3}) * 7;
  const at::Tensor styles = torch::rand({4, 32}) * 5;
  const at::Tensor y = modulated_conv2d(x, w, styles, {}, {}, {});
  CHECK(y.std().item<float>() == Approx(1).epsilon(0.05));
}

TEST_CASE("HalfPrecisionSurvivesLargeWeightsAndStyles") {
  const at::Tensor x = torch::randn({2, 8, 6, 6}), w = torch::randn({4, 8, 3, 3}) * 300,
                   styles = torch::randn({2, 8}) * 500, noise = torch::randn({6, 6});
  for (const bool fused : {true, false}) {
    const ModulatedConv how{1, 1, 1, true, true, fused};
    const at::Tensor reference = modulated_conv2d(x, w, styles, noise, {}, how);
    for (const auto& [type, tolerance] :
         {std::pair{at::kHalf, 5e-3}, std::pair{at::kBFloat16, 5e-2}}) {
      const at::Tensor y = modulated_conv2d(x.to(type), w, styles, noise, {}, how);
      CHECK(y.scalar_type() == type);
      CHECK(scaled_error(y, reference) < tolerance);
    }
  }
}
