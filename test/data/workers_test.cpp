// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "data/options.h"

namespace gantrain {

namespace {

int64_t chosen(const std::string& path, int64_t cores, int64_t ranks, int64_t computing) {
  DataOptions options;
  options.path = path;
  return choose_workers(options, {.cores = cores, .ranks = ranks, .computing = computing});
}

}  // namespace

TEST_CASE("WorkersAreTheCoresThatComputingLeavesToARank") {
  CHECK(chosen("photos", 2, 1, 2) == 1);
  CHECK(chosen("photos", 2, 2, 1) == 1);
  CHECK(chosen("photos", 1, 8, 1) == 1);
  CHECK(chosen("photos", 16, 1, 12) == 4);
  CHECK(chosen("photos", 48, 8, 2) == 4);
  CHECK(chosen("photos", 96, 8, 2) == 8);
  CHECK(chosen("photos", 96, 1, 2) == 8);
}

TEST_CASE("BuiltInPicturesNeedFewWorkers") {
  CHECK(chosen("synth:shapes", 96, 8, 2) == 2);
  CHECK(chosen("synth:shapes", 2, 1, 2) == 1);
}

TEST_CASE("AskedForWorkersAreObeyedAndNotSaid") {
  DataOptions options;
  const LoadingMachine machine{.cores = 4, .ranks = 1, .computing = 2};
  CHECK(workers_text(options, machine) ==
        "auto    data.workers 2: 4 cores, 1 rank here, 2 threads a rank to compute with");
  options.workers = 0;
  CHECK(choose_workers(options, machine) == 0);
  options.workers = 200;
  CHECK(choose_workers(options, machine) == 200);
  CHECK(workers_text(options, machine).empty());
}

}  // namespace gantrain
