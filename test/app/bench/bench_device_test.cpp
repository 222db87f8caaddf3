// SPDX-License-Identifier: Apache-2.0
// Where benchmarks compute, on a machine that shows no GPU.
#include "config/value.h"
#include "support/catch.h"
#include "support/stand_in_python.h"
#include "support/tiny.h"

namespace gantrain {
namespace {

const CommandOptions kWithoutGpu = {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}};

void check_refused(const std::string& command, int code, const std::string& reason) {
  const Outcome outcome = gantrain(words_of(command), kWithoutGpu);
  CAPTURE(command, outcome.err);
  CHECK(outcome.code == code);
  CHECK(is_one_error_line(outcome.err));
  CHECK_THAT(outcome.err, Catch::Contains(reason));
  CHECK(outcome.out.empty());
}

TEST_CASE("ABenchmarkOnAGpuThatIsNotThereSaysSo") {
  check_refused("bench ops --device cuda --json", 4, "no GPU is visible");
  check_refused("bench step --device cuda --preset dcgan-tiny", 4, "no GPU is visible");
  check_refused("bench step --device tpu", 2, "allowed: auto, cpu, cuda");
}

TEST_CASE("WhatOnlyAGpuHasIsRefusedOnACpu") {
  check_refused("bench ops --dtype float16", 2, "--dtype float16");
  check_refused("bench ops --dtype float61", 2, "float16");
  check_refused("bench ops --layout rows", 2, "channels-last");
  check_refused("bench step --preset dcgan-tiny --graphs on", 2, "train.graphs = on");
}

TEST_CASE("OperatorsAreTimedInTheLayoutThatIsAskedFor") {
  const Json result = last_line(gantrain(
      words_of("bench ops --json --device auto --rounds 1 --threads 1 --batch 2 --channels 4 "
               "--pixels 8 --layout channels-last"),
      kWithoutGpu));
  CHECK(result.at("layout") == "channels-last");
  CHECK(result.at("dtype") == "float32");
  CHECK_FALSE(result.contains("gpu"));
  CHECK(result.at("ops").size() > 10);
}

TEST_CASE("SecondsPerKimgAreThoseOfTheIterationsBatch") {
  const Json result =
      last_line(gantrain(words_of("bench step --json --threads 1 --steps 1 --pairs 1 --no-floor "
                                  "--python no-such-python --preset dcgan-tiny --batch 8 "
                                  "--micro-batch 4"),
                         kWithoutGpu));
  const Json& row = result.at("nets").at(0).at("rows").at(0);
  CHECK(row.at("batch") == 8);
  CHECK(row.at("micro_batch") == 4);
  CHECK(row.at("sec_per_kimg").get<double>() == Approx(row.at("median").get<double>() * 125));
  CHECK_FALSE(row.contains("reserved_bytes"));
}

}  // namespace
}  // namespace gantrain
