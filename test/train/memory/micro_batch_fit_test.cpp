// SPDX-License-Identifier: Apache-2.0
// Micro-batches that are fitted into memory, on a CPU whose tensors are counted.
#include <cstdio>

#include "support/catch.h"
#include "support/tape_graphs.h"
#include "support/tensor_checks.h"
#include "train/memory/counted_memory.h"
#include "train/memory/device_memory.h"
#include "train/run/elastic.h"
#include "train/step/run_ranks.h"
#include "train/step/toys.h"
#include "util/error.h"
#include "util/log.h"

using namespace gantrain;

namespace {

constexpr int64_t kBatch = 48;
const FitRequest kRequest{.resolution = {8, 8}};

const std::vector<int64_t> kDivisors = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48};
constexpr int64_t kFew = 4;  // so many are measured first

std::unique_ptr<StepOnCpu> make_step(const ToyCase& toy, const Rendezvous& rendezvous = {}) {
  auto step =
      std::make_unique<StepOnCpu>(toy.row, toy.config_with({{"train.batch", kBatch}}), rendezvous);
  if (toy.name == "growing") (*step)->enter(2, kBatch);
  return step;
}

int64_t rehearsed_peak(StepOnCpu& step, DeviceMemory& memory, int64_t images) {
  const at::Tensor pictures = toy_pictures(images, 0);
  memory.restart();
  step->rehearse_all({pictures});
  return memory.peaks().allocated;
}

// The pictures of the whole share, as float32 and in two buffers of bytes, which the fit sets
// aside.
double resident(int64_t share) { return static_cast<double>(share * 3 * 64 * (4 + 2)); }

// Just so much memory that an iteration may need `bytes`.
int64_t memory_for(double bytes, int64_t share) {
  return static_cast<int64_t>((bytes + resident(share)) / kUsedShare) + 1;
}

int expect(bool holds, const std::string& name, const char* what, int64_t number) {
  if (!holds) std::fprintf(stderr, "%s: %s: %ld\n", name.c_str(), what, static_cast<long>(number));
  return holds ? 0 : 1;
}

// Runs the body in processes of their own, whose tensors are counted.
int counted(int64_t world, const std::function<int(const Rendezvous&, CountedMemory&)>& body) {
  return failed_ranks(world, [&](const Rendezvous& r) {
    set_log({Level::kError, Level::kError, {}, ""});
    CountedMemory memory;
    return body(r, memory);
  });
}

// Fits with memory for just so many images, for each divisor of the batch. A twentieth more than
// they need: where another phase needs most from some number of images on, the peak is no line, and
// the chord that is drawn then lies above it.
int wrong_choices(const ToyCase& toy, CountedMemory& memory) {
  const auto step = make_step(toy);
  rehearsed_peak(*step, memory, 2);  // what is made once is there from now on
  std::map<int64_t, int64_t> peaks;
  for (const int64_t images : kDivisors) peaks[images] = rehearsed_peak(*step, memory, images);
  int wrong = 0;
  for (const int64_t images : kDivisors) {
    const double may_need = static_cast<double>(peaks[images]) * 1.05;
    memory.usable_bytes = memory_for(may_need, kBatch);
    fit_micro_batch(**step, *step->group(), memory, kRequest);
    const int64_t chosen = (*step)->plan().micro_batch;
    wrong += expect(static_cast<double>(peaks[chosen]) <= may_need, toy.name, "too large", chosen);
    if (images >= kFew) wrong += expect(chosen == images, toy.name, "not the largest", chosen);
    wrong += expect((*step)->plan().accumulate * chosen == kBatch, toy.name, "not cut", chosen);
  }
  return wrong;
}

}  // namespace

TEST_CASE("TheLargestMicroBatchWhoseMeasuredPeakFitsIsChosen") {
  for (const ToyCase& toy : all_toys()) {
    CAPTURE(toy.name);
    CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
            return wrong_choices(toy, memory);
          }) == 0);
  }
}

// A recorded phase keeps its memory while one that is not recorded yet runs.
TEST_CASE("WithGraphsTwoPeaksMustFitSideBySide") {
  const ToyCase toy = all_toys().front();
  const auto body = [&](const Rendezvous&, CountedMemory& memory) {
    const TapeGraphs tapes;
    const auto chosen = [&](const char* graphs) {
      StepOnCpu step(toy.row,
                     toy.config_with({{"train.batch", kBatch}, {"train.graphs", graphs}}),
                     Rendezvous{});
      rehearsed_peak(step, memory, 2);
      memory.restart();
      const auto there = static_cast<double>(memory.peaks().allocated);
      const auto peak = static_cast<double>(rehearsed_peak(step, memory, kBatch / 2));
      // Enough for one peak of half the batch, and not for two beside each other.
      memory.usable_bytes = memory_for(1.9 * (peak - there) + there, kBatch);
      fit_micro_batch(*step, *step.group(), memory, kRequest);
      return step->plan().micro_batch;
    };
    const int64_t plain = chosen("off"), recorded = chosen("on");
    return expect(plain >= kBatch / 2, toy.name, "without graphs", plain) +
           expect(recorded < kBatch / 2, toy.name, "with graphs", recorded);
  };
  CHECK(counted(1, body) == 0);
}

TEST_CASE("AnIterationNeedsNoMoreThanWasRehearsed") {
  for (const ToyCase& toy : all_toys()) {
    CAPTURE(toy.name);
    CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
            const auto step = make_step(toy);
            step->run(toy_pictures(kBatch, 0), 0);
            int wrong = 0;
            for (const int64_t images : {4, 16, 48}) {
              const auto rehearsed =
                  static_cast<double>(rehearsed_peak(*step, memory, images)) + resident(kBatch);
              (*step)->cut_into(images);
              for (const int64_t iteration : {2, 3}) {  // penalties are due in one of them
                const at::Tensor pictures = toy_pictures(kBatch, iteration);
                memory.restart();
                step->run(pictures, iteration);
                const int64_t peak = memory.peaks().allocated;
                wrong += expect(static_cast<double>(peak) <= rehearsed, toy.name, "needed", peak);
              }
            }
            return wrong;
          }) == 0);
  }
}

TEST_CASE("RanksTakeTheSmallestOfTheirChoices") {
  const ToyCase toy = all_toys().front();
  CHECK(counted(2, [&](const Rendezvous& r, CountedMemory& memory) {
          const auto step = make_step(toy, r);
          rehearsed_peak(*step, memory, 2);
          const int64_t mine = r.ranks.rank == 0 ? 24 : 6;
          const auto peak = static_cast<double>(rehearsed_peak(*step, memory, mine));
          memory.usable_bytes = memory_for(1.02 * peak, kBatch / 2);
          fit_micro_batch(**step, *step->group(), memory, kRequest);
          return expect(
              (*step)->plan().micro_batch == 6, "rank", "took", (*step)->plan().micro_batch);
        }) == 0);
}

// Of 47 images one rank has 24, the other one 23.
TEST_CASE("UnequalSharesAreFittedToo") {
  const ToyCase toy = all_toys().front();
  CHECK(counted(2, [&](const Rendezvous& r, CountedMemory& memory) {
          const Config config = toy.config_with({{"train.batch", 47}, {"train.uneven", true}});
          StepOnCpu step(toy.row, config, r);
          step.run(toy_pictures(47, 0), 0);
          const int64_t mine = r.ranks.rank == 0 ? 24 : 10;
          const int64_t peak = rehearsed_peak(step, memory, mine);
          memory.usable_bytes = memory_for(1.02 * static_cast<double>(peak), 24);
          fit_micro_batch(*step, *step.group(), memory, kRequest);
          const BatchPlan& plan = step->plan();
          int wrong = expect(plan.micro_batch == 8, "rank", "took", plan.micro_batch) +
                      expect(!plan.equal() && plan.parts(0) == 3, "rank", "cut", plan.parts(0));
          const auto rehearsed =
              static_cast<double>(rehearsed_peak(step, memory, 8)) + resident(47);
          const at::Tensor pictures = toy_pictures(47, 1);
          memory.restart();
          step.run(pictures, 1);
          const int64_t needed = memory.peaks().allocated;
          return wrong + expect(static_cast<double>(needed) <= rehearsed, "rank", "needed", needed);
        }) == 0);
}

TEST_CASE("AResumedRunKeepsItsMicroBatchWhereThatFits") {
  const ToyCase toy = all_toys().front();
  CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
          const auto step = make_step(toy);
          rehearsed_peak(*step, memory, 2);
          memory.usable_bytes =
              memory_for(1.02 * static_cast<double>(rehearsed_peak(*step, memory, 16)), kBatch);
          int wrong = 0;
          for (const auto& [kept, expected] :
               std::map<int64_t, int64_t>{{0, 16}, {6, 6}, {7, 16}, {24, 16}}) {
            FitRequest request = kRequest;
            request.kept = kept;
            fit_micro_batch(**step, *step->group(), memory, request);
            wrong += expect((*step)->plan().micro_batch == expected, "kept", "of", kept);
          }
          return wrong;
        }) == 0);
}

// Memory that grows faster than the images do: the line promises too much.
TEST_CASE("WhatNeedsMoreThanItPromisedIsCutSmaller") {
  const ToyCase toy = all_toys().front();
  CHECK(
      counted(1, [&](const Rendezvous&, CountedMemory& memory) {
        const auto step = make_step(toy);
        memory.distorted = [](int64_t bytes) { return bytes * bytes / 1000; };
        rehearsed_peak(*step, memory, 2);
        std::map<int64_t, int64_t> peaks;
        for (const int64_t images : kDivisors)
          peaks[images] = rehearsed_peak(*step, memory, images);
        const double may_need = static_cast<double>(peaks[16]) * 1.02;
        memory.usable_bytes = memory_for(may_need, kBatch);
        fit_micro_batch(**step, *step->group(), memory, kRequest);
        const int64_t chosen = (*step)->plan().micro_batch;
        return expect(
            chosen >= 1 && static_cast<double>(peaks[chosen]) <= may_need, "bent", "took", chosen);
      }) == 0);
}

TEST_CASE("WhereNotOneImageFitsTheRunEndsWithBothSizes") {
  const ToyCase toy = all_toys().front();
  CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
          const auto step = make_step(toy);
          memory.usable_bytes = 1000;
          try {
            fit_micro_batch(**step, *step->group(), memory, kRequest);
          } catch (const UserError& e) {
            const std::string text = e.what();
            return e.code() == Exit::kOutOfMemory && text.find("GiB may be used") != text.npos ? 0
                                                                                               : 1;
          }
          return 1;
        }) == 0);
}

// It runs out in the first measurement (few images), in the second one, or in a later one.
TEST_CASE("WhereTheMemoryRunsOutFewerImagesAreTried") {
  for (const ToyCase& toy : all_toys()) {
    CAPTURE(toy.name);
    CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
            const auto step = make_step(toy);
            rehearsed_peak(*step, memory, 2);
            int wrong = 0;
            for (const int64_t images : {1, 2, 3, 4, 6, 16}) {
              const int64_t end = rehearsed_peak(*step, memory, images) * 21 / 20;
              memory.usable_bytes = memory_for(static_cast<double>(end), kBatch);
              CountedMemory::end_at(end);
              fit_micro_batch(**step, *step->group(), memory, kRequest);
              const int64_t chosen = (*step)->plan().micro_batch;
              wrong +=
                  expect(rehearsed_peak(*step, memory, chosen) <= end, toy.name, "took", chosen);
              CountedMemory::end_at(0);
              for (const PlayerState& player : (*step)->players()) {
                for (const auto& [name, parameter] : player.parameters)
                  wrong += expect(parameter.requires_grad(), name, "is frozen after", images);
              }
            }
            return wrong;
          }) == 0);
  }
}

TEST_CASE("RanksOfWhichOneRunsOutOfMemoryAgree") {
  const ToyCase toy = all_toys().front();
  for (const int64_t images : {0, 1, 2, 6}) {
    CAPTURE(images);
    CHECK(counted(2, [&](const Rendezvous& r, CountedMemory& memory) {
            const auto step = make_step(toy, r);
            rehearsed_peak(*step, memory, 2);
            memory.usable_bytes = 1 << 30;
            memory.restart();
            const int64_t there = memory.peaks().allocated;
            const int64_t peak =
                images == 0 ? there + 1000 : rehearsed_peak(*step, memory, images) * 21 / 20;
            if (r.ranks.rank == 1) CountedMemory::end_at(peak);
            try {
              fit_micro_batch(**step, *step->group(), memory, kRequest);
            } catch (const UserError& e) {
              return expect(
                  images == 0 && e.code() == Exit::kOutOfMemory, "rank", e.what(), images);
            }
            const int64_t chosen = (*step)->plan().micro_batch;
            return expect(chosen == images, "rank", "took", chosen);
          }) == 0);
  }
}

TEST_CASE("RoomIsLeftForWhatIsTakenLater") {
  const ToyCase toy = all_toys().front();
  CHECK(counted(1, [&](const Rendezvous&, CountedMemory& memory) {
          const auto step = make_step(toy);
          rehearsed_peak(*step, memory, 2);
          const int64_t half = rehearsed_peak(*step, memory, 24) * 51 / 50;
          FitRequest request = kRequest;
          request.later = half - rehearsed_peak(*step, memory, 16);
          const auto chosen_with = [&](int64_t bytes) {
            memory.usable_bytes = memory_for(static_cast<double>(bytes), kBatch);
            fit_micro_batch(**step, *step->group(), memory, request);
            return (*step)->plan().micro_batch;
          };
          return expect(chosen_with(half) < 24, "later", "takes the room of", 24) +
                 expect(chosen_with(half + request.later) == 24, "later", "leaves the room of", 24);
        }) == 0);
}

TEST_CASE("AnElasticRunTakesTheBytesOfItsStateOnce") {
  const auto step = make_step(all_toys().front());
  const StateTensors state = (*step)->state();
  size_t bytes = 0;
  for (const StateTensor& item : state) bytes += item.tensor.nbytes();
  BorderMemory border;
  CHECK(border.still_to_take(state) == static_cast<int64_t>(bytes));
  border.keep(state, {}, 0);
  CHECK(border.still_to_take(state) == 0);
}

TEST_CASE("ARehearsalLeavesNothingBehind") {
  for (const ToyCase& toy : all_toys()) {
    CAPTURE(toy.name);
    const auto trained = [&](bool rehearses) {
      return result_of_ranks(1, [&](const Rendezvous& r) {
        const auto step = make_step(toy, r);
        for (int64_t i = 0; i < 4; ++i) {
          if (rehearses) (*step)->rehearse_all({toy_pictures(4, 7), {}}, 1000);
          step->run(toy_pictures(kBatch, i), i);
        }
        return step->state();
      });
    };
    check_same_bits(trained(true), trained(false));
  }
}

TEST_CASE("CuttingAStepsBatchTrainsAsAMicroBatchThatWasGiven") {
  const ToyCase toy = all_toys().front();
  const auto trained = [&](bool given) {
    return result_of_ranks(2, [&](const Rendezvous& r) {
      std::map<std::string, Json> changes = {{"train.batch", kBatch}};
      if (given) changes["train.micro_batch"] = 6;
      StepOnCpu step(toy.row, toy.config_with(changes), r);
      if (!given) step->cut_into(6);
      for (int64_t i = 0; i < 3; ++i) step.run(toy_pictures(kBatch, i), i);
      return step.state();
    });
  };
  check_same_bits(trained(false), trained(true));
}

TEST_CASE("AfterARestartTheMemoryOfDeadRanksIsAwaited") {
  CountedMemory memory(10);
  double slept = 0;
  const auto given_back_until = [&](double end) {
    slept = 0;
    memory.usable_bytes = 10;
    await_freed_memory(memory, 10, [&](double seconds) {
      slept += seconds;
      if (slept < end) memory.usable_bytes += 5;
    });
    return slept;
  };
  CHECK(given_back_until(0) == Approx(0.5));  // nothing is coming
  CHECK(given_back_until(3) == Approx(3.4).margin(0.11));
  CHECK(given_back_until(100) == Approx(10).margin(0.11));
}
