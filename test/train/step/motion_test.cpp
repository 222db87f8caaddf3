// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "support/step_setup.h"
#include "support/wait_counter.h"
#include "train/step/players.h"
#include "train/step/toy_recipe.h"

using namespace gantrain;

namespace {

// What three iterations of the toy with Adam move, by name.
std::map<std::string, double> moved_by(const std::map<std::string, Json>& changes) {
  std::map<std::string, Json> all = {{"G.optimizer", "adam"}, {"D.optimizer", "adam"}};
  for (const auto& [key, value] : changes) all[key] = value;
  StepOnCpu step(toy_row(), toy_config(all));
  Motion motion(step->players());
  for (int64_t i = 0; i < 3; ++i) step.run(toy_pictures(8, i), i);
  const WaitCounter counter;
  const Statistics found = motion.since_last(step->players());
  CHECK(text_of(counter.seen()).empty());
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : found) numbers[name] = value.item<double>();
  return numbers;
}

}  // namespace

TEST_CASE("MotionTellsWhichPlayersMoveAndHowLargeTheirGradientsAre") {
  auto moved = moved_by({});
  for (const char* name :
       {"Weights/G/moved", "Weights/D/moved", "Gradients/G/size", "Gradients/D/size"}) {
    CAPTURE(name);
    CHECK(moved[name] > 1e-5);
  }
  moved = moved_by({{"G.adam.lr", 0}});
  CHECK(moved["Weights/G/moved"] == 0);
  CHECK(moved["Gradients/G/size"] > 1e-5);
  CHECK(moved["Weights/D/moved"] > 1e-5);
  // An optimizer that remembers no squares of gradients does not tell their size.
  moved = moved_by({{"G.optimizer", "sgd"}});
  CHECK(moved.count("Gradients/G/size") == 0);
  CHECK(moved.count("Weights/G/moved") == 1);
}

TEST_CASE("MotionIsThatSinceTheLastTick") {
  StepOnCpu step(toy_row(), toy_config());
  Motion motion(step->players());
  step.run(toy_pictures(8, 0), 0);
  CHECK(motion.since_last(step->players())[0].second.item<double>() > 0);
  CHECK(motion.since_last(step->players())[0].second.item<double>() == 0);
}
