// SPDX-License-Identifier: Apache-2.0
// What PGGAN's networks compute in when they are asked for less than float32.
#include "core/forward_precision.h"
#include "recipes/pggan/official.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/phase_checks.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Pair {
  std::shared_ptr<pggan::Generator> G;
  std::shared_ptr<ProgressiveDiscriminator> D;

  explicit Pair(bool fused) {
    pggan::Shape shape;
    shape.resolution = 16;
    shape.net = {7, 128, 1, 8, fused};
    G = std::make_shared<pggan::Generator>(shape);
    D = std::make_shared<ProgressiveDiscriminator>(pggan::discriminator_shape(shape));
    initialise_equalised(*G, "G", 5);
    initialise_equalised(*D, "D", 5);
  }
};

const StageLevel kFading{16, 0.3};

Tensor latents() { return torch::sin(torch::arange(28, at::kFloat)).reshape({4, 7}); }

struct Pass {
  Tensor pictures, scores;
  std::vector<Computed> computed;
};

Pass pass(const Pair& nets, const ForwardPrecision& precision) {
  Pass result;
  const AutocastScope lowered(precision, at::kCPU, &result.computed);
  {
    const BlockScope named("G");
    result.pictures = nets.G->forward(latents(), kFading);
  }
  const BlockScope named("D");
  result.scores = nets.D->forward(result.pictures, kFading);
  return result;
}

}  // namespace

TEST_CASE("EveryBlockOfPgganIsLoweredButForTheLastOfD") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const bool fused : {true, false}) {
      const Pair nets(fused);
      const Pass half = pass(nets, {type, {}}), full = pass(nets, {});
      CAPTURE(c10::toString(type), fused);
      CHECK(half.pictures.scalar_type() == at::kFloat);
      CHECK(half.scores.scalar_type() == at::kFloat);
      CHECK(scaled_error(half.pictures, full.pictures) < 5e-2);
      CHECK(scaled_error(half.pictures, full.pictures) > 1e-5);
      std::vector<std::string> blocks;
      for (const Computed& one : half.computed) {
        CAPTURE(one.block);
        CHECK(one.type == (one.block == "D.4x4" ? at::kFloat : type));
        CHECK(one.why.empty() == (one.block != "D.4x4"));
        blocks.push_back(one.block);
      }
      CHECK(blocks == std::vector<std::string>{"G.4x4",
                                               "G.8x8",
                                               "G.ToRGB_lod1",
                                               "G.16x16",
                                               "G.ToRGB_lod0",
                                               "D.FromRGB_lod0",
                                               "D.16x16",
                                               "D.FromRGB_lod1",
                                               "D.8x8",
                                               "D.4x4"});
    }
  }
}

TEST_CASE("LossesOfPgganUnderAutocastReachEveryWeightInFloat32") {
  for (const auto& [amp, type] : {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    CAPTURE(amp);
    StepWatch watch;
    StepOnCpu step(pggan::row(),
                   step_config(pggan::facts(),
                               pggan::sized({7, 128, 1, 8, true},
                                            {{"train.batch", 4},
                                             {"schedule.start", 8},
                                             {"schedule.batch", "4"},
                                             {"precision.amp", amp},
                                             {"precision.initial_scale", 128}})),
                   {},
                   {},
                   std::ref(watch));
    watch.step = &step;
    step->enter(1);  // 16 pixels fade in
    std::vector<Computed> computed;
    step->note_computed_into(&computed);
    const Tensor real = torch::sin(torch::arange(4 * 3 * 16 * 16, at::kFloat));
    const StepReport report = step.run(GlobalBatch{real.reshape({4, 3, 16, 16}), {}, 0, 1300});
    for (const PhaseReport& phase : report.phases) {
      CHECK(phase.verdict.finite == true);
      CHECK(phase.losses.at(0).scalar_type() == at::kFloat);
      const std::string& player = phase.phase->player.name;
      for (const auto& [name, parameter] : step.player(player).active) {
        CAPTURE(player, name);
        REQUIRE(watch.gradients.at(player).count(name) == 1);
        const Tensor& gradient = watch.gradients.at(player).at(name);
        CHECK(gradient.scalar_type() == at::kFloat);
        CHECK(gradient.isfinite().all().item<bool>());
      }
    }
    const Computed penalty{"D.16x16", at::kFloat, "a penalty"}, loss{"D.16x16", type, ""};
    CHECK(std::count(computed.begin(), computed.end(), penalty) == 1);
    CHECK(std::count(computed.begin(), computed.end(), loss) == 1);
  }
}
