// SPDX-License-Identifier: Apache-2.0
#include "train/cpu_precision/cpu_precision.h"

#include "support/catch.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/run/trainer.h"
#include "train/save/checkpoint.h"
#include "train/step/run_ranks.h"
#include "train/step/toy_recipe.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

using namespace gantrain;
namespace fs = std::filesystem;

namespace {

// The toy's two products: G's is 5 -> 192, D's is 192 -> 1.
const Product kG = *product_from("linear 5 192x5"), kD = *product_from("linear 192 1x192");
const std::string kMixed = "linear 5 192x5 = bfloat16, linear 192 1x192 = float32";

PrecisionOptions with(Amp amp, const std::string& choice = "auto") {
  PrecisionOptions options;
  options.amp = amp;
  options.cpu_choice = choice;
  return options;
}

// G's product is twice as fast in bfloat16, D's is as fast, whatever the machine.
PrecisionMeter meter_of_toy() {
  PrecisionMeter meter;
  meter.able = true;
  meter.time = [](const Product& one, const ProductUses&) {
    return ProductTimes{one, 1, one == kG ? 0.5 : 1};
  };
  meter.ratio = [](TrainingStep&, const TrainedSize&) -> double {
    throw std::logic_error("nobody asked for the ratio");
  };
  return meter;
}

CpuPrecision decided(StepOnCpu& step,
                     const PrecisionOptions& options,
                     const std::optional<std::string>& resumed = std::nullopt,
                     const PrecisionMeter& meter = meter_of_toy()) {
  TrainOptions train;
  train.batch = step->plan().batch;
  return decide_cpu_precision(
      *step,
      options,
      trained_sizes(*step, train, step.group()->world(), /*resolution=*/{8, 8}),
      *step.group(),
      resumed,
      meter);
}

PrecisionMeter none_allowed() {
  PrecisionMeter meter = meter_of_toy();
  meter.time = [](const Product&, const ProductUses&) -> ProductTimes {
    throw std::logic_error("measured again");
  };
  return meter;
}

}  // namespace

TEST_CASE("MainPhasesShowTheirProductsAndLeaveNothingBehind") {
  StepOnCpu step(toy_row(), toy_config());
  const NamedTensors before = step.state();
  const ProductRecord record = record_products(*step, {{0, 8, 8, {8, 8}}});
  const NamedTensors after = step.state();
  for (size_t i = 0; i < before.size(); ++i) CHECK(torch::equal(before[i].second, after[i].second));
  for (const PlayerState& player : step->players()) {
    for (const auto& [name, parameter] : player.parameters) {
      CHECK(parameter.requires_grad());
      CHECK_FALSE(parameter.grad().defined());
    }
  }
  REQUIRE(record.size() == 2);
  CHECK(record.at(kG).samples == 8);
  // In D's phase twice without and once in every second iteration in G's phase: D of real and fake,
  // G once without gradients.
  CHECK(record.at(kG).forward == 1.5);
  CHECK(record.at(kG).weight_gradient == 0.5);
  CHECK(record.at(kG).input_gradient == 0);
  CHECK(record.at(kD).weight_gradient == 2);
  CHECK(record.at(kD).input_gradient == 0.5);
}

TEST_CASE("AmpOnACpuLowersWhatIsFasterAndSaysSo") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "auto"}}));
  const CpuPrecision result = decided(step, with(Amp::kAuto));
  CHECK(result.choice == kMixed);
  CHECK(to_text(*step->precision().choice) == kMixed);
  CHECK_FALSE(step->precision().autocast_type);
  CHECK(result.measured.size() == 2);
  CHECK_THAT(result.detail, Catch::Contains("0.75 x their time in float32"));
  std::vector<Computed> computed;
  step->note_computed_into(&computed);
  step.run(toy_pictures(8, 0), 0);
  const auto noted = [&](const char* block, at::ScalarType type) {
    return std::count_if(computed.begin(), computed.end(), [&](const Computed& one) {
      return one.block == block && one.type == type;
    });
  };
  CHECK(noted("G", at::kBFloat16) == 1);
  CHECK(noted("G", at::kFloat) == 0);
  CHECK(noted("D", at::kFloat) == 1);
  CHECK(noted("D", at::kBFloat16) == 0);
}

TEST_CASE("AllInFloat32IsTheBitsOfARunWithoutAmp") {
  StepOnCpu plain(toy_row(), toy_config());
  StepOnCpu lowered(toy_row(), toy_config({{"precision.amp", "auto"}}));
  PrecisionMeter meter = meter_of_toy();
  meter.time = [](const Product& one, const ProductUses&) { return ProductTimes{one, 1, 1.2}; };
  decided(lowered, with(Amp::kAuto), std::nullopt, meter);
  for (int64_t i = 0; i < 4; ++i) {
    plain.run(toy_pictures(8, i), i);
    lowered.run(toy_pictures(8, i), i);
  }
  const NamedTensors a = plain.state(), b = lowered.state();
  for (size_t i = 0; i < a.size(); ++i) CHECK(torch::equal(a[i].second, b[i].second));
}

TEST_CASE("AProcessorWithoutBfloat16ComputesInFloat32AndMeasuresNothing") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "auto"}}));
  PrecisionMeter meter = none_allowed();
  meter.able = false;
  const CpuPrecision result = decided(step, with(Amp::kAuto), std::nullopt, meter);
  CHECK(result.choice == "float32");
  CHECK_THAT(result.detail, Catch::Contains("no instructions for bfloat16"));
}

TEST_CASE("AResumedRunKeepsItsChoiceWhateverIsFasterNow") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "auto"}}));
  const CpuPrecision result = decided(step, with(Amp::kAuto), kMixed, none_allowed());
  CHECK(result.choice == kMixed);
  CHECK(to_text(*step->precision().choice) == kMixed);
}

TEST_CASE("ARunFromBeforeThereWasAChoiceGoesOnInBfloat16") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "auto"}}));
  const CpuPrecision result = decided(step, with(Amp::kAuto), "", none_allowed());
  CHECK(result.choice == "bfloat16");
  CHECK(step->precision().autocast_type == at::kBFloat16);
  CHECK(step->precision().choice == nullptr);
}

TEST_CASE("AGivenChoiceIsObeyedWithoutMeasuring") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "auto"}}));
  CHECK(decided(step, with(Amp::kAuto, kMixed), std::nullopt, none_allowed()).choice == kMixed);
  CHECK(to_text(*step->precision().choice) == kMixed);
}

TEST_CASE("Bf16IsObeyedAndWarnedOfWithItsRatioWhereItIsSlower") {
  PrecisionMeter meter = none_allowed();
  double ratio = 1.87;
  meter.ratio = [&ratio](TrainingStep&, const TrainedSize&) { return ratio; };
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "bf16"}}));
  const CpuPrecision slower = decided(step, with(Amp::kBf16), std::nullopt, meter);
  CHECK_THAT(slower.warning, Catch::Contains("1.87 x the time of float32"));
  CHECK(step->precision().autocast_type == at::kBFloat16);
  ratio = 0.8;
  CHECK(decided(step, with(Amp::kBf16), std::nullopt, meter).warning.empty());
  ratio = 3;  // a run that goes on is not warned again
  CHECK(decided(step, with(Amp::kBf16), "auto", meter).warning.empty());
}

TEST_CASE("TheRatioIsMeasuredAndThePrecisionStays") {
  StepOnCpu step(toy_row(), toy_config({{"precision.amp", "bf16"}}));
  CHECK(PrecisionMeter().ratio(*step, {0, 8, 8, {8, 8}}) > 0);
  CHECK(step->precision().autocast_type == at::kBFloat16);
  CHECK(step->precision().choice == nullptr);
}

TEST_CASE("Fp16AndFloat32DecideNothing") {
  for (const Amp amp : {Amp::kFp16, Amp::kOff}) {
    StepOnCpu step(toy_row(), toy_config());
    const CpuPrecision result = decided(step, with(amp), std::nullopt, none_allowed());
    CHECK(result.choice == "auto");
    CHECK(result.detail.empty());
    CHECK(result.warning.empty());
  }
}

// Rank 1 would choose otherwise by itself; both end in the same bits, those of one rank in two
// parts.
TEST_CASE("AllRanksComputeInTheTypesThatRank0Chose") {
  const auto trained = [](const Rendezvous& r) {
    StepOnCpu step(toy_row(),
                   toy_config({{"precision.amp", "auto"}, {"train.accumulate", 2 / r.ranks.world}}),
                   r);
    PrecisionMeter meter = meter_of_toy();
    if (r.ranks.rank == 1) meter.able = false;
    const CpuPrecision result = decided(step, with(Amp::kAuto), std::nullopt, meter);
    if (result.choice != kMixed) throw std::logic_error(result.choice);
    for (int64_t i = 0; i < 3; ++i) step.run(toy_pictures(8, i), i);
    // Running statistics move once for each part on one rank, and once in all on two.
    NamedTensors parameters;
    for (const auto& [name, tensor] : step.state()) {
      if (!name.ends_with("running_mean")) parameters.emplace_back(name, tensor);
    }
    return parameters;
  };
  const TensorsByName one = result_of_ranks(1, trained);
  check_same_bits(result_of_ranks(2, trained), one);
}

TEST_CASE("AStateKeepsTheChoiceAndARunThatSaysAutoTakesIt") {
  const TemporaryFolder folder;
  const NamedTensors state = {{"G/a", torch::ones({3})}};
  const auto config = [](const std::string& choice) {
    return toy_config({{"precision.amp", "auto"}, {"precision.cpu_choice", choice}});
  };
  save_state(folder / "state-000001.pt", state, {8, 1}, config(kMixed));
  Counters counters;
  load_newest(folder.path(), state, counters, config("auto"), "");
  CHECK(counters.cpu_choice == kMixed);
  CHECK_NOTHROW(load_newest(folder.path(), state, counters, config(kMixed), ""));
  CHECK_THROWS_WITH(load_newest(folder.path(), state, counters, config("float32"), ""),
                    Catch::Contains("--force precision.cpu_choice"));
}

// On a machine whose processor multiplies bfloat16 the choice may be any; it stands in config.json.
TEST_CASE("ARunWritesItsChoiceAndResumesToTheSameBits") {
  const TemporaryFolder folder;
  const auto run = [&](const char* name, double kimg, const std::string& choice) {
    set_log({Level::kError, Level::kInfo, {}, ""});
    const Config config = toy_config({{"run.run_dir", (folder / name).string()},
                                      {"train.kimg", kimg},
                                      {"precision.amp", "auto"},
                                      {"precision.cpu_choice", choice}});
    const TrainSetup setup{
        config, {}, BackendKind::kGloo, at::kCPU, toy_row(), "test", "", {}, {}, nullptr};
    train(setup);
  };
  const auto saved_choice = [&](const char* name) {
    const Json json = Json::parse(read_file(folder / name / "config.json"));
    return text_of(json["values"]["precision.cpu_choice"]["value"]);
  };
  run("measured", 0.04, "auto");
  CHECK(choice_from(saved_choice("measured")).has_value());
  CHECK_THAT(read_file(folder / "measured" / "log.txt"), Catch::Contains("amp     "));
  run("whole", 0.08, kMixed);
  run("parts", 0.04, kMixed);
  run("parts", 0.08, "auto");  // it would measure, but takes up the state's
  CHECK(saved_choice("parts") == kMixed);
  CHECK(read_file(folder / "parts/model-000000.080.safetensors") ==
        read_file(folder / "whole/model-000000.080.safetensors"));
}
