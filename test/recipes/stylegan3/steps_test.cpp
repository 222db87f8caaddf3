// SPDX-License-Identifier: Apache-2.0
// Training steps that never wait for the device and can be replayed, and what they compute in.
#include "recipes/stylegan3/networks_of_fixtures.h"
#include "recipes/stylegan3/options.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/phase_checks.h"
#include "support/step_checks.h"

using namespace gantrain;
using namespace gantrain::stylegan3;

namespace {

using Changes = std::map<std::string, Json>;

// Pictures of 8 pixels, batch 8.
StepCase one(const std::string& name,
             const Changes& changes,
             const std::vector<int64_t>& class_counts = {}) {
  return {name, tiny_run(changes), class_counts};
}

// The strength moves in every iteration, and the blur fades.
const Changes kMoving = {{"ada.mode", "ada"},
                         {"ada.p", 0.5},
                         {"ada.interval", 1},
                         {"ada.kimg", 1},
                         {"stylegan3.config", "r"},
                         {"stylegan3.blur_sigma", 2},
                         {"stylegan3.blur_fade", 0.05}};

StepCase with_vectors() {
  StepCase all = one("t, vectors", {});
  all.label_rows = some_label_rows();
  return all;
}

std::vector<StepCase> step_cases() {
  return {one("t", {}), with_vectors(), one("r, ada, labels", kMoving, {3, 5})};
}

std::vector<Changes> precisions() {
  std::vector<Changes> all = all_amp();
  all.push_back(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"stylegan3.num_fp16_res", 1}});
  return all;
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(row(), step_cases(), "wrapper", precisions());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(row(), step_cases(), "dynamic", precisions());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(row(), step_cases(), "flat", precisions());
}

TEST_CASE("WaitingChangesNothing") {
  for (const std::vector<int64_t>& classes : {std::vector<int64_t>{}, {3, 5}})
    check_waiting_changes_nothing(row(), one("t", {}, classes), 0);
}

TEST_CASE("WaitingChangesNoMoreThanRoundingWithBlurAndAugmentation") {
  StepCase moving = step_cases().back();
  moving.changes["G.optimizer"] = moving.changes["D.optimizer"] = "sgd";
  check_waiting_changes_nothing(row(), moving, 1e-5);
}

namespace {

// Every phase is due often enough to be replayed.
StepCase often(StepCase each) {
  each.changes["stylegan3.d_interval"] = 2;
  each.changes["stylegan3.gamma"] = {{"from", 2}, {"to", 1}, {"kimg", 0.1}};
  return each;
}

}  // namespace

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(row(), often(step_cases().back()), precisions(), 2, 12);
}

TEST_CASE("GraphsChangeNothing") {
  for (const StepCase& each : step_cases())
    check_graphs_change_nothing(row(), often(each), precisions(), 1, 12);
}

namespace {

std::vector<Computed> computed_by(Changes changes) {
  changes.merge(Changes{{"data.resolution", 16}, {"stylegan3.channel_base", 128}});
  StepOnCpu step(row(), step_config(facts(), tiny_run(changes)));
  return gantrain::computed_by(step, {8, 3, 16, 16}, 3);
}

bool has(const std::vector<Computed>& all, const std::string& block, at::ScalarType type) {
  return std::any_of(all.begin(), all.end(), [&](const Computed& each) {
    return each.block == block && each.type == type;
  });
}

}  // namespace

TEST_CASE("UnderAutocastTheLayersAreLoweredAndTheInputIsNot") {
  for (const auto& [amp, type] : {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    CAPTURE(amp);
    const std::vector<Computed> all =
        computed_by({{"precision.amp", amp}, {"precision.initial_scale", 128}});
    for (const char* block : {"G.synthesis.L0_20_8", "G.synthesis.L3_16_3", "D.b16"}) {
      CAPTURE(block);
      CHECK(has(all, block, type));
    }
    for (const char* block : {"G.mapping", "G.synthesis.input", "D.b4"}) {
      CAPTURE(block);
      CHECK(has(all, block, at::kFloat));
      CHECK_FALSE(has(all, block, type));
    }
  }
}

TEST_CASE("WithBlocksTheHighestRatesAreHalf") {
  const std::vector<Computed> all = computed_by(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"stylegan3.num_fp16_res", 1}});
  CHECK(has(all, "G.synthesis.L0_20_8", at::kHalf));  // 16 samples to the width are all there are
  CHECK(has(all, "D.b16", at::kHalf));
  CHECK(has(all, "D.b8", at::kFloat));
  CHECK(has(all, "G.synthesis.input", at::kFloat));
}

TEST_CASE("OnlyFloat16IsClampedAndTheModelSaysSo") {
  const auto model = [](const Changes& changes) {
    return StepOnCpu(row(), step_config(facts(), tiny_run(changes)))->recipe().model();
  };
  CHECK(model({})["conv_clamp"].is_null());
  CHECK(model({{"precision.amp", "bf16"}})["conv_clamp"].is_null());
  CHECK(model({{"precision.amp", "fp16"}})["conv_clamp"] == 256);
  CHECK(model({{"precision.amp", "fp16"}})["num_fp16_res"] == 0);
  CHECK(model({{"precision.amp", "fp16"}, {"precision.mode", "blocks"}})["num_fp16_res"] == 4);
}

TEST_CASE("HalfLayersOfTheReferencesNetworksFollowFloat32") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"t32", "r32"}) {
    CAPTURE(name);
    Pair pair(name, "io");
    GeneratorShape shape = pair.G_shape;
    shape.synthesis.num_fp16_res = 4;
    stylegan3::Generator G(shape);
    load_into(G, pair.G_tensors, "G");
    const Tensor half = G.forward(pair["in/z"], {});
    CHECK(half.scalar_type() == at::kFloat);
    CHECK(scaled_error(half, pair["out/img"]) < 2e-2);
    CHECK(scaled_error(half, pair["out/img"]) > 1e-6);
  }
}
