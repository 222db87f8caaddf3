// SPDX-License-Identifier: Apache-2.0
// That nothing waits for the device inside an iteration, and that what is put off until a tick
// comes to the same.
#include <cmath>
#include <cstdio>

#include "core/device.h"
#include "support/catch.h"
#include "support/tensor_checks.h"
#include "support/wait_counter.h"
#include "train/step/run_ranks.h"
#include "train/step/toys.h"
#include "util/error.h"
#include "util/log.h"

using namespace gantrain;

namespace {

using Changes = std::map<std::string, Json>;

// Iteration kBad has pictures that are not finite.
constexpr int64_t kBad = 4, kWaitIterations = 8;

StepReport waited_iteration(StepOnCpu& step, int64_t i) {
  at::Tensor pictures = toy_pictures(8, i);
  if (i == kBad) pictures.fill_(NAN);
  return step.run(pictures, i);
}

const std::vector<Changes>& precisions() {
  static const std::vector<Changes> all = {
      {{"precision.amp", "off"}},
      {{"precision.amp", "bf16"}},
      {{"precision.amp", "fp16"}, {"precision.growth_interval", 2}}};
  return all;
}

// c10d's Reducer looks up which parameters were used in a map on the host, int32 on every device.
bool is_reducers_map(const Wait& wait) { return wait.op == "aten::item" && wait.type == at::kInt; }

// What waits in iterations of all phases, among them one without finite gradients.
std::string waits_of(const std::shared_ptr<Group>& group,
                     const ToyCase& toy,
                     const Changes& changes) {
  StepOnCpu step(group, toy.row, toy.config_with(changes));
  waited_iteration(step, 0);
  const WaitCounter counter;
  for (int64_t i = 1; i <= kBad + 1; ++i) waited_iteration(step, i);
  std::vector<Wait> waits;
  for (const Wait& wait : counter.seen()) {
    if (!toy.searches || !is_reducers_map(wait)) waits.push_back(wait);
  }
  return text_of(waits);
}

int ranks_that_wait(int64_t world, const ToyCase& toy, const char* mode) {
  return failed_ranks(world, [&](const Rendezvous& r) {
    set_log({Level::kError, Level::kError, {}, ""});
    const auto group = join_on_cpu(r);
    int code = 0;
    for (const Changes& precision : precisions()) {
      for (const bool reads_wait : {false, true}) {
        std::optional<AssumeReadsWait> assumed;
        if (reads_wait) assumed.emplace();
        Changes changes = precision;
        changes["dist.ddp_mode"] = mode;
        changes["optim.clip_norm"] = 0.5;
        changes["optim.clip_value"] = 0.1;
        const std::string waits = waits_of(group, toy, changes);
        if (waits.empty()) continue;
        std::fprintf(stderr,
                     "%s, %s, reads %s: %s\n",
                     toy.name.c_str(),
                     precision.at("precision.amp").get<std::string>().c_str(),
                     reads_wait ? "wait" : "are free",
                     waits.c_str());
        code = 1;
      }
    }
    return code;
  });
}

}  // namespace

TEST_CASE("NothingWaitsInAnIterationOfOneRank") {
  for (const ToyCase& toy : all_toys()) {
    CAPTURE(toy.name);
    CHECK(ranks_that_wait(1, toy, "dynamic") == 0);
  }
}

TEST_CASE("NothingWaitsInAnIterationOfTwoRanksInAnyMode") {
  for (const ToyCase& toy : all_toys()) {
    for (const char* mode : {"wrapper", "dynamic", "flat"}) {
      CAPTURE(toy.name, mode);
      CHECK(ranks_that_wait(2, toy, mode) == 0);
    }
  }
}

namespace {

// All state after some iterations, with a tick in the middle and at the end.
NamedTensors trained(const Rendezvous& r,
                     const ToyCase& toy,
                     const Changes& changes,
                     bool reads_wait) {
  set_log({Level::kError, Level::kError, {}, ""});
  std::optional<AssumeReadsWait> assumed;
  if (reads_wait) assumed.emplace();
  StepOnCpu step(toy.row, toy.config_with(changes), r);
  for (int64_t i = 0; i < kWaitIterations; ++i) {
    waited_iteration(step, i);
    if (i == kWaitIterations / 2) step->settle();
  }
  step->settle();
  return step.state();
}

// The same bits, but for the generator's average: its weight is rounded to float32 on the device,
// and a + (b - a) * w rounds once more than lerp does. A rounding in each of a few iterations.
void check_same_state(const TensorsByName& got, TensorsByName expected) {
  for (const auto& [name, tensor] : got) {
    if (name.rfind("G_ema/", 0) != 0) continue;
    CAPTURE(name);
    CHECK(torch::allclose(tensor, expected.at(name), 2e-6, 1e-6));
    expected[name] = tensor;
  }
  check_same_bits(got, expected);
}

}  // namespace

TEST_CASE("WhatIsPutOffComesToTheSameForEveryOptimizer") {
  for (const ToyCase& toy : all_toys()) {
    for (const char* optimizer : {"adam", "sgd", "rmsprop"}) {
      Changes changes = {{"optim.clip_norm", 0.5}};
      for (const std::string player : {"G", "D", "W", "L"}) {
        if (!toy.config({}).has(player + ".optimizer")) continue;
        changes[player + ".optimizer"] = optimizer;
        changes[player + ".sgd.momentum"] = 0.5;
      }
      CAPTURE(toy.name, optimizer);
      const auto result = [&](bool reads_wait) {
        return result_of_ranks(
            1, [&](const Rendezvous& r) { return trained(r, toy, changes, reads_wait); });
      };
      const TensorsByName at_once = result(false);
      CHECK(at_once.at("G.amp/skipped").numel() == 1);
      check_same_state(result(true), at_once);
    }
  }
}

TEST_CASE("WhatIsPutOffComesToTheSameOnTwoRanksInEveryModeAndPrecision") {
  for (const ToyCase& toy : all_toys()) {
    for (const char* mode : {"wrapper", "dynamic", "flat"}) {
      for (const Changes& precision : precisions()) {
        Changes changes = precision;
        changes["dist.ddp_mode"] = mode;
        CAPTURE(toy.name, mode, precision.at("precision.amp"));
        const auto result = [&](bool reads_wait) {
          return result_of_ranks(
              2, [&](const Rendezvous& r) { return trained(r, toy, changes, reads_wait); });
        };
        check_same_state(result(true), result(false));
      }
    }
  }
}

namespace {

// Message and code of the error that ends these iterations, or the tick after them; "" if none.
std::string end_of_run(const Changes& changes, const std::vector<int64_t>& bad, bool reads_wait) {
  std::optional<AssumeReadsWait> assumed;
  if (reads_wait) assumed.emplace();
  StepOnCpu step(toy_row(), toy_config(changes));
  try {
    for (int64_t i = 0; i < 6; ++i) {
      at::Tensor pictures = toy_pictures(8, i);
      if (std::find(bad.begin(), bad.end(), i) != bad.end()) pictures.fill_(NAN);
      step.run(pictures, i);
    }
    step->settle();
  } catch (const UserError& e) {
    return std::to_string(static_cast<int>(e.code())) + " " + e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ARunThatDivergesEndsAtTheTickWithTheSameWords") {
  const std::string diverged = std::to_string(static_cast<int>(Exit::kDiverged));
  struct Case {
    Changes changes;
    std::vector<int64_t> bad;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {{{"train.on_nonfinite", "stop"}}, {5}, "the gradient of D.weight is not finite"},
           {{{"train.nonfinite_limit", 2}}, {1, 4, 5}, "2 steps of D in a row"},
           {{{"precision.amp", "fp16"}, {"precision.initial_scale", 2}},
            {4, 5},
            "the loss scale of D fell to 0.5, below precision.min_scale = 1"}}) {
    CAPTURE(c.says);
    const std::string at_once = end_of_run(c.changes, c.bad, false);
    CHECK_THAT(at_once, Catch::StartsWith(diverged) && Catch::Contains(c.says));
    CHECK(end_of_run(c.changes, c.bad, true) == at_once);
  }
  CHECK(end_of_run({{"train.nonfinite_limit", 2}}, {1, 3, 5}, false).empty());
  CHECK(end_of_run({{"train.nonfinite_limit", 2}}, {1, 3, 5}, true).empty());
}

TEST_CASE("WhereReadsWaitNoIterationEndsARun") {
  const AssumeReadsWait assumed;
  StepOnCpu step(toy_row(), toy_config({{"train.on_nonfinite", "stop"}}));
  for (int64_t i = 0; i < 2; ++i) CHECK_NOTHROW(step.run(torch::full({8, 3, 8, 8}, NAN), i));
  CHECK_THROWS_WITH(step->settle(), Catch::Contains("D.weight"));
}
