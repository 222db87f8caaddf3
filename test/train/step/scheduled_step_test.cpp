// SPDX-License-Identifier: Apache-2.0
// Hyperparameters of optimizers and of the average that move with the images seen.
#include "config/value.h"
#include "support/catch.h"
#include "support/step_setup.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "train/save/checkpoint.h"
#include "train/step/run_ranks.h"
#include "train/step/toy_recipe.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

constexpr int64_t kScheduledIterations = 12;

struct Ramp {
  std::string key, text;
};

// Over 6 to 15 iterations of 8 images.
const std::vector<Ramp>& ramps() {
  static const std::vector<Ramp> all = {
      {"G.adam.lr", R"({"from": 0.01, "to": 0.001, "kimg": 0.08, "shape": "cosine"})"},
      {"G.adam.beta1", R"({"from": 0, "to": 0.9, "kimg": 0.064, "shape": "linear"})"},
      {"G.adam.beta2", R"({"from": 0.9, "to": 0.99, "kimg": 0.048, "shape": "step"})"},
      {"D.rmsprop.lr", R"({"from": 0.002, "to": 0.0001, "kimg": 0.12, "shape": "linear"})"}};
  return all;
}

Config config_with(const Changes& changes) {
  Changes all = {{"G.optimizer", "adam"}, {"D.optimizer", "rmsprop"}, {"ema.rampup", 0}};
  for (const auto& [key, value] : changes) all[key] = value;
  return toy_config(all);
}

Config config_of_ramps() {
  Changes changes = {
      {"ema.half_life", R"({"from": 0.01, "to": 0.1, "kimg": 0.08, "shape": "linear"})"}};
  for (const Ramp& ramp : ramps()) changes[ramp.key] = ramp.text;
  return config_with(changes);
}

TensorsByName by_names(const NamedTensors& all) { return {all.begin(), all.end()}; }

}  // namespace

TEST_CASE("StepsAlongRampsAreSingleStepsWithTheirNumbersSetByHand") {
  const auto group = join_on_cpu();
  StepOnCpu along(group, toy_row(), config_of_ramps());
  NamedTensors state = along.state();
  for (int64_t i = 0; i < kScheduledIterations; ++i) {
    const int64_t images = 8 * i;
    along.run(toy_pictures(8, i), i);
    Changes numbers;
    for (const Ramp& ramp : ramps())
      numbers[ramp.key] = Value<Scheduled>::from_text(ramp.text)->at(images);
    StepOnCpu single(group, toy_row(), config_with(numbers));
    single.load(state);
    single.run(toy_pictures(8, i), i);
    state = along.state();
    TensorsByName expected = by_names(single.state()), got = by_names(state);
    for (TensorsByName* all : {&expected, &got}) all->erase("G_ema/weight");  // has its own test
    CAPTURE(i);
    check_same_bits(got, expected);
  }
}

TEST_CASE("TheAverageFollowsTheRampOfItsHalfLife") {
  StepOnCpu step(toy_row(), config_of_ramps());
  for (int64_t i = 0; i < kScheduledIterations; ++i) {
    const TensorsByName before = by_names(step.state());
    step.run(toy_pictures(8, i), i);
    const TensorsByName after = by_names(step.state());
    const double half_life = std::min(100.0, 10 + 90 * (8.0 * static_cast<double>(i) / 80));
    const double old = std::pow(0.5, 8 / half_life);
    CAPTURE(i, half_life);
    CHECK(torch::allclose(after.at("G_ema/weight"),
                          before.at("G_ema/weight") * old + after.at("G/weight") * (1 - old),
                          1e-5,
                          1e-6));
  }
}

TEST_CASE("ARunGoesOnExactlyInTheMiddleOfItsRamps") {
  const TemporaryFolder folder;
  const Config config = config_of_ramps();
  const auto group = join_on_cpu();
  StepOnCpu whole(group, toy_row(), config);
  for (int64_t i = 0; i < kScheduledIterations; ++i) {
    if (i == 5) save_state(folder / "state-000000.pt", whole.state(), {8 * i, i, 0, 0}, config);
    whole.run(toy_pictures(8, i), i);
  }
  StepOnCpu rest(group, toy_row(), config);
  Counters counters;
  load_newest(folder.path(), named(rest->state()), counters, config, "");
  rest->begin();
  CHECK(counters.iteration == 5);
  for (int64_t i = counters.iteration; i < kScheduledIterations; ++i)
    rest.run(toy_pictures(8, i), i);
  check_same_bits(by_names(rest.state()), by_names(whole.state()));
}

TEST_CASE("ARampIsThatOfTheImagesSeenWhateverTheIteration") {
  const auto group = join_on_cpu();
  StepOnCpu early(group, toy_row(), config_of_ramps()), late(group, toy_row(), config_of_ramps());
  early.run({toy_pictures(8, 0), {}, 4, 8000});
  late.run({toy_pictures(8, 0), {}, 4, 9000});  // all ramps are over
  check_same_bits(by_names(early.state()), by_names(late.state()));
  StepOnCpu other(group, toy_row(), config_of_ramps());
  other.run({toy_pictures(8, 0), {}, 4, 40});
  CHECK_FALSE(
      torch::equal(by_names(other.state()).at("G/weight"), by_names(early.state()).at("G/weight")));
}
