// SPDX-License-Identifier: Apache-2.0
#include "train/step/mixed_precision.h"

#include <ATen/autocast_mode.h>

#include <cmath>

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/tensor_checks.h"
#include "train/step/run_ranks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

constexpr int64_t kIterations = 24, kMixedBatch = 8, kInterval = 3;
constexpr double kScale = 1 << 20;  // overflows at first

struct Parts {  // micro-batches of a step
  int64_t G, D;
};

// Heusel et al. 2017's two time scales, as MMagic's SAGAN has them.
Config two_time_scales(const Parts& parts, std::map<std::string, Json> values) {
  for (const std::string player : {"G", "D"}) {
    values[player + ".optimizer"] = "adam";
    values[player + ".adam.lr"] = player == "G" ? 1e-4 : 4e-4;
    values[player + ".adam.beta1"] = 0;
    values[player + ".adam.beta2"] = 0.999;
    values[player + ".adam.eps"] = 1e-6;
    values[player + ".accumulate"] = player == "G" ? parts.G : parts.D;
  }
  return toy_config(values);
}

std::map<std::string, Json> half() {
  return {{"precision.amp", "fp16"},
          {"precision.initial_scale", kScale},
          {"precision.growth_interval", kInterval}};
}

struct Trained {
  NamedTensors weights;
  std::map<std::string, std::vector<double>> scales;  // of each player's steps
  int64_t skipped = 0;
};

void keep_weights(Recipe& recipe, NamedTensors& weights) {
  for (Player* player : recipe.players()) {
    for (const auto& item : player->network->named_parameters())
      weights.emplace_back(player->name + "." + item.key(), item.value().detach().clone());
  }
}

constexpr Parts kParts{4, 8};

Trained by_the_loop(const std::map<std::string, Json>& precision,
                    const Parts& parts,
                    const Rendezvous& r = {}) {
  StepOnCpu step(toy_row(), two_time_scales(parts, precision), r);
  Trained result;
  for (int64_t i = 0; i < kIterations; ++i) {
    for (const PhaseReport& phase : step.run(toy_pictures(kMixedBatch, i), i).phases) {
      const GradientVerdict& verdict = phase.verdict;
      result.scales[phase.phase->player.name].push_back(
          verdict.scale.defined() ? verdict.scale.item<double>() : 1);
      if (!verdict.finite.value()) ++result.skipped;
    }
  }
  keep_weights(step->recipe(), result.weights);
  return result;
}

// One network's side of the same, written out.
struct Side {
  std::vector<Tensor> parameters, m, v;
  double scale = kScale, lr = 0;
  int64_t good = 0, steps = 0, parts = 1;

  bool step() {
    bool finite = true;
    std::vector<Tensor> gradients;
    for (const Tensor& p : parameters) {
      gradients.push_back(p.grad() / scale);
      finite = finite && gradients.back().isfinite().all().item<bool>();
      p.mutable_grad() = Tensor();
    }
    good = finite ? good + 1 : 0;
    if (!finite) scale /= 2;
    if (good == kInterval) {
      scale *= 2;
      good = 0;
    }
    if (!finite) return false;
    ++steps;
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters.size(); ++i) {
      m[i] = gradients[i];  // beta1 = 0
      v[i] = 0.999 * v[i] + 0.001 * gradients[i].square();
      const double correction = 1 - std::pow(0.999, static_cast<double>(steps));
      parameters[i].sub_(lr * m[i] / ((v[i] / correction).sqrt() + 1e-6));
    }
    return true;
  }
};

Tensor under_autocast(const std::function<Tensor()>& loss) {
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor result = loss();
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return result;
}

Trained by_hand() {
  const Config config = two_time_scales(kParts, {});
  const auto recipe = toy_row().make({config, 0, {8, 8}, 3, {}, at::kCPU, at::kFloat});
  Trained result;
  std::map<std::string, Side> sides;
  for (Player* player : recipe->players()) {
    Side& side = sides[player->name];
    side.lr = player->name == "G" ? 1e-4 : 4e-4;
    side.parts = player->name == "G" ? kParts.G : kParts.D;
    side.parameters = player->network->parameters();
    for (const Tensor& p : side.parameters) {
      side.m.push_back(torch::zeros_like(p));
      side.v.push_back(torch::zeros_like(p));
    }
  }
  for (int64_t i = 0; i < kIterations; ++i) {
    for (const Phase& phase : recipe->phases()) {
      if (!phase.is_due(i)) continue;
      Side& side = sides.at(phase.player.name);
      for (auto& [name, other] : sides) {
        for (Tensor& p : other.parameters) p.requires_grad_(&other == &side);
      }
      for (int64_t k = 0; k < side.parts; ++k) {
        PhaseInput part = whole_batch(*recipe, phase, {toy_pictures(kMixedBatch, i), {}, i});
        part.real = part.real.slice(0, k, std::nullopt, side.parts).contiguous();
        part.samples = {k, side.parts, kMixedBatch / side.parts};
        const Tensor loss = under_autocast([&] { return phase.run(part).loss; });
        ((loss / side.parts).to(at::kFloat) * side.scale).backward();
      }
      result.scales[phase.player.name].push_back(side.scale);
      if (!side.step()) ++result.skipped;
    }
  }
  keep_weights(*recipe, result.weights);
  return result;
}

}  // namespace

TEST_CASE("TwoTimeScalesAccumulationAndADynamicScaleAreTheHandWrittenLoops") {
  const Trained loop = by_the_loop(half(), kParts), hand = by_hand();
  CHECK(loop.scales == hand.scales);
  CHECK(loop.skipped == hand.skipped);
  CHECK(loop.skipped > 2);
  const std::vector<double>& D = loop.scales.at("D");
  CHECK(std::adjacent_find(D.begin(), D.end(), std::less<>()) != D.end());  // it grew
  CHECK(loop.scales.at("G") != D);                                          // each its own
  for (size_t i = 0; i < hand.weights.size(); ++i) {
    CAPTURE(hand.weights[i].first);
    CHECK(torch::allclose(loop.weights[i].second, hand.weights[i].second, 1e-5, 1e-6));
  }
}

// As long as no gradient leaves float16's range: a rank's own are twice those of half the loss.
TEST_CASE("TwoRanksAreTwoAccumulatedMicroBatchesUnderAmpBitForBit") {
  for (const char* amp : {"bf16", "fp16"}) {
    CAPTURE(amp);
    const auto trained = [amp](const Rendezvous& r) {
      const int64_t parts = 2 / r.ranks.world;
      const Trained result = by_the_loop(
          {{"precision.amp", amp}, {"precision.initial_scale", 1024}}, {parts, parts}, r);
      if (result.skipped > 0) throw std::logic_error("a step was left out");
      return result.weights;
    };
    const TensorsByName one = result_of_ranks(1, trained);
    check_same_bits(result_of_ranks(2, trained), one);
  }
}

TEST_CASE("BlocksThatStayInFloat32MustExist") {
  StepOnCpu step(toy_row(), toy_config());
  PrecisionOptions options;
  options.keep_float32 = "G, D";
  CHECK(forward_precision(options, at::kCPU, step->players()).keep_float32 ==
        std::vector<std::string>{"G", "D"});
  options.keep_float32 = "G,E";
  CHECK_THROWS_WITH(forward_precision(options, at::kCPU, step->players()),
                    Catch::Contains("E is no network or block"));
}

TEST_CASE("ForwardPassesAreLoweredByAutocastAlone") {
  StepOnCpu step(toy_row(), toy_config());
  const std::vector<PlayerState>& players = step->players();
  PrecisionOptions options;
  const auto lowered = [&] { return forward_precision(options, at::kCPU, players).autocast_type; };
  CHECK_FALSE(lowered());
  options.amp = Amp::kAuto;
  CHECK_FALSE(lowered());  // each product has a type of its own
  CHECK(forward_precision(options, at::kCPU, players).choice != nullptr);
  CHECK(forward_precision(options, at::Device(at::kCUDA, 0), players).autocast_type == at::kHalf);
  CHECK(forward_precision(options, at::Device(at::kCUDA, 0), players).choice == nullptr);
  options.cpu_choice = "bfloat16";
  CHECK(lowered() == at::kBFloat16);
  CHECK(forward_precision(options, at::kCPU, players).choice == nullptr);
  options.cpu_choice = "auto";
  options.amp = Amp::kBf16;
  CHECK(lowered() == at::kBFloat16);
  CHECK(forward_precision(options, at::kCPU, players).choice == nullptr);
  options.amp = Amp::kAuto;
  options.mode = PrecisionMode::kBlocks;
  CHECK_FALSE(lowered());
}

TEST_CASE("AChoiceThatCannotBeReadIsRefused") {
  StepOnCpu step(toy_row(), toy_config());
  PrecisionOptions options;
  options.amp = Amp::kAuto;
  options.cpu_choice = "conv3d 1x1x1 1x1x1x1 = bfloat16";
  CHECK_THROWS_WITH(forward_precision(options, at::kCPU, step->players()),
                    Catch::Contains("precision.cpu_choice = conv3d"));
}

TEST_CASE("TheLogSaysHowMuchIsLowered") {
  PrecisionOptions options;
  options.amp = Amp::kAuto;
  options.cpu_choice = "linear 4 2x4 = bfloat16, linear 5 2x5 = float32";
  CHECK_THAT(describe_precision(options, at::kCPU), Catch::Contains("1 of 2 convolutions"));
  options.cpu_choice = "float32";
  CHECK_THAT(describe_precision(options, at::kCPU), Catch::StartsWith("float32 everywhere"));
  options.amp = Amp::kBf16;
  CHECK(describe_precision(options, at::kCPU) == "bfloat16 by autocast");
}

TEST_CASE("OnlyFloat16IsScaledAndBlocksAreNotUnlessAsked") {
  const auto scale = [](const PrecisionOptions& options) {
    const GradientGuard guard(guard_settings(options, {}, {}, at::kCPU), "G", at::kCPU);
    return guard.scaled(torch::ones({})).item<double>();
  };
  PrecisionOptions o;
  CHECK(scale(o) == 1);
  o.amp = Amp::kBf16;
  CHECK(scale(o) == 1);
  o.amp = Amp::kFp16;
  CHECK(scale(o) == 65536);
  o.mode = PrecisionMode::kBlocks;
  CHECK(scale(o) == 1);
  o.loss_scale = {LossScale::Kind::kFixed, 512};
  CHECK(scale(o) == 512);
  StepOnCpu step(toy_row(), toy_config());
  CHECK(step->players()[0].guard != step->players()[1].guard);
}
