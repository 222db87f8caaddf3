// SPDX-License-Identifier: Apache-2.0
#include "ops/adam.h"

#include <catch2/catch.hpp>

#include "tensor_checks.h"

using namespace gantrain;

TEST_CASE("AdamIsThePapersAlgorithm") {
  const AdamSettings s{0.01, 0.5, 0.9, 1e-8};
  std::vector<at::Tensor> p = {torch::randn({5}, at::kDouble)},
                          m = {torch::zeros({5}, at::kDouble)},
                          v = {torch::zeros({5}, at::kDouble)}, steps = {torch::zeros({})};
  at::Tensor x = p[0].clone(), first = m[0].clone(), second = v[0].clone();
  for (int t = 1; t <= 4; ++t) {
    std::vector<at::Tensor> g = {torch::randn({5}, at::kDouble)};
    first = s.beta1 * first + (1 - s.beta1) * g[0];
    second = s.beta2 * second + (1 - s.beta2) * g[0].square();
    const at::Tensor m_hat = first / (1 - std::pow(s.beta1, t)),
                     v_hat = second / (1 - std::pow(s.beta2, t));
    x = x - s.lr * m_hat / (v_hat.sqrt() + s.eps);
    adam_step_(p, g, m, v, steps, s);
    CHECK(scaled_error(p[0], x) < 1e-12);
  }
  CHECK(steps[0].item<float>() == 4);
}

TEST_CASE("LerpMovesByTheWeight") {
  std::vector<at::Tensor> a = {torch::zeros({3}), torch::ones({2, 2})};
  lerp_(a, {torch::ones({3}), torch::full({2, 2}, 5.0)}, 0.25);
  CHECK(a[0][0].item<float>() == 0.25f);
  CHECK(a[1][1][1].item<float>() == 2.0f);
}
