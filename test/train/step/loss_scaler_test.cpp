// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/tensor_checks.h"
#include "train/step/mixed_precision.h"

using namespace gantrain;

namespace {

// Equal bits, where NaN equals NaN.
bool same_values(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 0, 0, /*equal_nan=*/true);
}

}  // namespace

// Scale, tracker, unscaled gradients, verdict and parameters of every step of both cases, exactly.
TEST_CASE("EveryStepIsTheReferences") {
  const TensorFile file = fixture("amp_gradscaler");
  const auto cases = nlohmann::json::parse(file.metadata.at("cases"));
  REQUIRE(cases.size() == 2);
  for (const auto& [name, settings] : cases.items()) {
    const auto tensor = [&, prefix = name + "/"](const char* key) {
      return file.tensors.at(prefix + key);
    };
    LossScaler scaler({settings["init_scale"],
                       settings["growth_factor"],
                       settings["backoff_factor"],
                       settings["growth_interval"]},
                      at::kCPU);
    at::Tensor p = tensor("p0").clone(), q = tensor("q0").clone();
    const int64_t steps = tensor("found_inf").size(0);
    REQUIRE(steps == static_cast<int64_t>(settings["script"].get<std::string>().size()));
    for (int64_t i = 0; i < steps; ++i) {
      CAPTURE(name, i);
      CHECK(same_values(scaler.current()[0], tensor("scale_before")[i]));
      CHECK(same_values(scaler.state()[1].second[0], tensor("tracker_before")[i]));
      at::Tensor gp = tensor("grad_p_scaled")[i].clone(), gq = tensor("grad_q_scaled")[i].clone();
      const at::Tensor found = scaler.unscale_({gp, at::Tensor(), gq});
      CHECK(found.item<float>() == static_cast<float>(tensor("found_inf")[i].item<int>()));
      CHECK(same_values(gp, tensor("grad_p_unscaled")[i]));
      CHECK(same_values(gq, tensor("grad_q_unscaled")[i]));
      if (found.item<float>() == 0) {
        p.sub_(gp, 0.1);
        q.sub_(gq, 0.1);
      }
      CHECK(same_values(p, tensor("p_after")[i]));
      CHECK(same_values(q, tensor("q_after")[i]));
      scaler.update(found);
      CHECK(same_values(scaler.current()[0], tensor("scale_after")[i]));
      CHECK(same_values(scaler.state()[1].second[0], tensor("tracker_after")[i]));
    }
  }
}

TEST_CASE("AFixedScaleStays") {
  LossScaler scaler({512, 2, 0.5, 1, false}, at::kCPU);
  at::Tensor g = torch::full({2}, 1024.0F);
  CHECK(scaler.unscale_({g}).item<float>() == 0);
  CHECK(torch::equal(g, torch::full({2}, 2.0F)));
  g[0] = INFINITY;
  const at::Tensor found = scaler.unscale_({g});
  CHECK(found.item<float>() == 1);
  scaler.update(found);
  CHECK(scaler.current().item<float>() == 512);
}

TEST_CASE("AScaleThatTheScalerCannotHaveComeToBeginsAnew") {
  const auto begun = [](const ScalerSettings& settings, float loaded, int64_t left_out) {
    LossScaler scaler(settings, at::kCPU);
    scaler.state()[0].second.fill_(loaded);
    scaler.begin(left_out);
    return scaler.current().item<float>();
  };
  const ScalerSettings dynamic{.init = 1024, .backoff = 0.3};
  CHECK(begun(dynamic, 1, 0) == 1024);     // of a session that did not scale
  CHECK(begun(dynamic, 4096, 0) == 4096);  // grown
  CHECK(begun(dynamic, 307.2F, 1) == 307.2F);
  CHECK(begun(dynamic, 27.648F, 3) == 27.648F);
  CHECK(begun({.init = 64, .dynamic = false}, 1024, 0) == 64);
}

TEST_CASE("AScaledLossIsFloat32WhateverTheLossWas") {
  const LossScaler scaler({8}, at::kCPU);
  const at::Tensor loss = torch::full({}, 0.5, at::kHalf);
  CHECK(scaler.scale(loss).scalar_type() == at::kFloat);
  CHECK(scaler.scale(loss).item<float>() == 4);
}
