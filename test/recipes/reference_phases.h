// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/phase_checks.h"
#include "support/tensor_checks.h"
#include "util/text.h"

namespace gantrain {

// How much gradients may differ: whole ones of the largest value, norms relatively and absolutely.
struct GradientTolerances {
  double whole, norm, norm_margin;
};

// One tensor "PHASE/KIND/NAME" of a fixture; values within 1e-4.
inline void check_entry(const std::vector<std::string>& key,
                        const PhaseResult& result,
                        const at::Tensor& expected,
                        const GradientTolerances& tolerances) {
  const std::string &kind = key.at(1), &name = key.at(2);
  if (kind == "gradnorm") {
    CHECK(norm_of(result.gradients.at(name)) ==
          Approx(expected.item<double>()).epsilon(tolerances.norm).margin(tolerances.norm_margin));
  } else if (kind == "grad") {
    CHECK(scaled_error(result.gradients.at(name), expected) < tolerances.whole);
  } else if (name.ends_with(".loss") || name.ends_with(".reg")) {  // of each sample
    CHECK(result.out.loss.item<double>() == Approx(expected.mean().item<double>()).epsilon(1e-4));
  } else {
    REQUIRE(kind == "stat");
    std::string statistic = name;
    std::replace(statistic.begin(), statistic.end(), '.', '/');
    const at::Tensor value = value_of(result.out.statistics, statistic).detach();
    CHECK(scaled_error(value.reshape(expected.sizes()), expected) < 1e-4);
  }
}

// Runs the phase and compares all that the fixture has of it as `in_fixture`.
inline PhaseResult check_phase(Recipe& recipe,
                               const std::string& name,
                               const GlobalBatch& batch,
                               const TensorFile& reference,
                               const std::string& in_fixture,
                               const GradientTolerances& tolerances) {
  const Phase& phase = phase_of(recipe, name);
  PhaseResult result = run_with_gradients(recipe, phase, whole_batch(recipe, phase, batch));
  int compared = 0;
  for (const auto& [key, expected] : reference.tensors) {
    const std::vector<std::string> parts = split(key, '/');
    if (parts[0] != in_fixture || parts.size() != 3 || parts[1] == "magnitude_ema_after") continue;
    CAPTURE(key);
    check_entry(parts, result, expected, tolerances);
    ++compared;
  }
  CHECK(compared > 20);
  return result;
}

// How far the networks of a step, and the average of the generator's weights, have gone since this
// was made. `order`: the fixture's order of the parameters of G and D.
class WayOfNetworks {
 public:
  WayOfNetworks(StepOnCpu& step, const Json& order) : step_(step), order_(order) {
    for (const char* player : {"G", "D", "G_ema"}) {
      for (const auto& item : network(player).named_parameters())
        start_[player][item.key()] = item.value().detach().clone();
    }
  }

  // Norms of all parameters, or of the way they have gone, in the fixture's order.
  at::Tensor norms(const std::string& player, bool moved) {
    const auto parameters = network(player).named_parameters();
    REQUIRE(parameters.size() == order_of(player).size());
    std::vector<double> all;
    for (const std::string name : order_of(player)) {
      const at::Tensor& now = parameters[name];
      all.push_back(norm_of(moved ? now.detach() - start_.at(player).at(name) : now));
    }
    return torch::tensor(all, at::kDouble);
  }

  // Compares the ways with the fixture's after iteration i.
  void check_moved(int64_t i, const TensorFile& reference) {
    const std::string at = fmt::format("train/{}/", i);
    for (const std::string player : {"G", "D", "G_ema"}) {
      CAPTURE(i, player);
      const at::Tensor moved = norms(player, true);
      const at::Tensor& expected = reference.tensors.at(at + "deltanorm/" + player);
      for (int64_t k = 0; k < moved.numel(); ++k) {
        const std::string parameter = order_of(player)[static_cast<size_t>(k)];
        CAPTURE(parameter);
        CHECK(moved[k].item<double>() ==
              Approx(expected[k].item<double>()).epsilon(1e-2).margin(1e-12));
      }
      const at::Tensor& total = reference.tensors.at(at + "total_deltanorm/" + player);
      CHECK(moved.norm().item<double>() ==
            Approx(total.item<double>()).epsilon(1e-3).margin(1e-12));
    }
  }

 private:
  const torch::nn::Module& network(const std::string& player) {
    return player == "G_ema" ? *step_->average().network() : *step_.player(player).player->network;
  }
  const Json& order_of(const std::string& player) const {
    return order_[player == "D" ? "D" : "G"];
  }

  StepOnCpu& step_;
  Json order_;
  std::map<std::string, std::map<std::string, at::Tensor>> start_;
};

}  // namespace gantrain
