// SPDX-License-Identifier: Apache-2.0
// Training steps of small networks: functions, ranks, resumes in the middle of schedules, graphs,
// and what is computed in which type.
#include <optional>

#include "core/device.h"
#include "recipes/r3gan/networks_of_fixtures.h"
#include "recipes/r3gan/options.h"
#include "recipes/r3gan/recipe.h"
#include "support/catch.h"
#include "support/computed_text.h"
#include "support/phase_checks.h"
#include "support/step_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

using Changes = std::map<std::string, Json>;

Json ramp(double from, double to) {
  return {{"from", from}, {"to", to}, {"kimg", 0.1}, {"shape", "cosine"}};
}

// Pictures of 8 pixels, batch 8; everything that can move moves.
Changes tiny(Changes more = {}) {
  more.merge(Changes{{"data.resolution", 8},
                     {"train.batch", 8},
                     {"r3gan.z_dim", 8},
                     {"r3gan.embedding", 4},
                     {"r3gan.width", "8"},
                     {"r3gan.cardinality", "2"},
                     {"r3gan.blocks", "1"},
                     {"r3gan.gamma", ramp(2, 1)},
                     {"G.adam.lr", ramp(2e-3, 1e-3)},
                     {"D.adam.lr", ramp(2e-3, 1e-3)},
                     {"G.adam.beta2", ramp(0.9, 0.99)},
                     {"D.adam.beta2", ramp(0.9, 0.99)},
                     {"ema.half_life", ramp(0, 0.1)},
                     {"ada.p", ramp(0.2, 0.8)}});
  return more;
}

StepCase one(const std::string& name,
             const Changes& changes = {},
             const std::vector<int64_t>& class_counts = {}) {
  return {name, tiny(changes), class_counts};
}

StepCase with_vectors() {
  StepCase all = one("vectors");
  all.label_rows = some_label_rows();
  return all;
}

std::vector<StepCase> cases() {
  return {one("unconditional"),
          one("lazy, labels", {{"r3gan.penalty_interval", 2}}, {3, 5}),
          one("no augmentation", {{"ada.mode", "none"}}),
          one("DiffAugment", {{"augment.mode", "diff"}}),
          with_vectors()};
}

bool is_lazy(const StepCase& one) { return one.changes.contains("r3gan.penalty_interval"); }

std::vector<Changes> precisions() {
  std::vector<Changes> all = all_amp();
  all.push_back(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"r3gan.num_fp16_res", 1}});
  return all;
}

}  // namespace

TEST_CASE("NothingWaitsInWrapperMode") {
  check_nothing_waits(r3gan::row(), cases(), "wrapper", precisions());
}

TEST_CASE("NothingWaitsInDynamicMode") {
  check_nothing_waits(r3gan::row(), cases(), "dynamic", precisions());
}

TEST_CASE("NothingWaitsInFlatMode") {
  check_nothing_waits(r3gan::row(), cases(), "flat", precisions());
}

TEST_CASE("WaitingChangesNothingWithoutAugmentation") {
  for (const std::vector<int64_t>& classes : {std::vector<int64_t>{}, {3, 5}})
    check_waiting_changes_nothing(
        r3gan::row(), one("no augmentation", {{"ada.mode", "none"}}, classes), 0);
}

TEST_CASE("GraphsChangeNothingOnTwoRanks") {
  check_graphs_change_nothing(r3gan::row(), cases()[1], precisions(), 2, 12);
}

TEST_CASE("GraphsChangeNothing") {
  // A phase that is due in every second iteration is replayed from the ninth on, others from the
  // fourth.
  for (const StepCase& each : cases())
    check_graphs_change_nothing(r3gan::row(), each, precisions(), 1, is_lazy(each) ? 12 : 8);
}

TEST_CASE("PhasesOfR3GanAreFunctions") {
  const Tensor real = torch::linspace(-1, 1, 8 * 3 * 8 * 8).reshape({8, 3, 8, 8});
  const Tensor labels = torch::arange(8).remainder(2);
  for (const StepCase& each : cases()) {
    for (const bool reads_wait : {false, true}) {
      CAPTURE(each.name, reads_wait);
      std::optional<AssumeReadsWait> assumed;
      if (reads_wait) assumed.emplace();
      Changes changes = each.changes;
      changes["precision.amp"] = "bf16";
      const auto config = step_config(r3gan::facts(), changes);
      StepOnCpu step(
          r3gan::row(), config, {}, each.class_counts, [](const std::string&) {}, each.label_rows);
      const bool classes = !each.class_counts.empty(), vectors = each.label_rows.defined();
      const Tensor rows =
          vectors ? each.label_rows.index_select(0, torch::arange(8).remainder(6)) : Tensor();
      check_phases_are_functions(*step, {real, classes ? labels : rows, 0});
    }
  }
}

namespace {

std::vector<Computed> computed_by(const Changes& changes) {
  StepOnCpu step(r3gan::row(), step_config(r3gan::facts(), tiny(changes)));
  return gantrain::computed_by(step, {8, 3, 8, 8}, 2);
}

bool has(const std::vector<Computed>& all, const Computed& one) {
  return std::count(all.begin(), all.end(), one) == 1;
}

const char* const kStart = "the start scales everything else";
const char* const kLast = "the last block: scores";

}  // namespace

TEST_CASE("UnderAutocastR3GanIsLoweredButForItsIslands") {
  const std::vector<Computed> all = computed_by({{"precision.amp", "bf16"}});
  CHECK(has(all, {"G.Model.MainLayers.0", at::kFloat, kStart}));
  CHECK(has(all, {"G.Model.MainLayers.0", at::kBFloat16, ""}));
  CHECK(has(all, {"G.Model.MainLayers.1", at::kBFloat16, ""}));
  CHECK(has(all, {"D.Model.MainLayers.0", at::kBFloat16, ""}));
  CHECK(has(all, {"D.Model.MainLayers.0", at::kFloat, "a penalty"}));
  CHECK(has(all, {"D.Model.MainLayers.1", at::kFloat, kLast}));
}

TEST_CASE("WithBlocksTheTopResolutionsAreBfloat16WithTheirImageLayers") {
  const std::vector<Computed> all = computed_by(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"r3gan.num_fp16_res", 4}});
  CHECK(has(all, {"G.Model.MainLayers.0", at::kFloat, ""}));
  CHECK(has(all, {"G.Model.MainLayers.1", at::kBFloat16, ""}));
  CHECK(has(all, {"G.Model.AggregationLayer", at::kBFloat16, ""}));
  CHECK(has(all, {"D.Model.ExtractionLayer", at::kBFloat16, ""}));
  CHECK(has(all, {"D.Model.MainLayers.0", at::kBFloat16, ""}));
  CHECK(has(all, {"D.Model.MainLayers.1", at::kFloat, ""}));
}

// Max 1e-2 and mean 1e-3 of the peak: what the official code's small networks lose.
TEST_CASE("Bfloat16StagesOfTheReferencesNetworksFollowFloat32") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : r3gan::kReferences) {
    CAPTURE(name);
    const r3gan::Networks p(name, "io");
    r3gan::Shape half = p.shape;
    for (int64_t i = 1; i < half.stages(); ++i) half.half_stages.push_back(i);
    r3gan::Generator G(half);
    r3gan::Discriminator D(half);
    load_into(G, p.G_tensors, "G");
    load_into(D, p.D_tensors, "D");
    const Tensor labels = r3gan::Networks::labels(p.reference);
    const Tensor full = p["out/img"], lowered = G.forward(p["in/z"], labels);
    CHECK(lowered.scalar_type() == at::kBFloat16);
    CHECK(scaled_error(lowered, full) < 1e-2);
    const double mean = (lowered.to(at::kFloat) - full).abs().mean().item<double>();
    CHECK(mean < 1e-3 * full.abs().max().item<double>());
    CHECK(mean > 1e-6);
    const Tensor scores = D.forward(full, labels);
    CHECK(scores.scalar_type() == at::kFloat);
    CHECK(scaled_error(scores, p["out/D_fake_logits"]) < 5e-2);
  }
}
