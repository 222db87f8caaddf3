// SPDX-License-Identifier: Apache-2.0
// What a command says and how it ends where the host has too little memory for it.
#include "support/catch.h"
#include "support/process_memory.h"
#include "support/tiny.h"

namespace gantrain {
namespace {

constexpr rlim_t kGiB = 1 << 30;

void check_short(rlim_t bytes, const std::string& command, const Words& named) {
  const TemporaryFolder folder;
  CAPTURE(command);
  Outcome outcome;
  {
    const AddressSpaceLimit limit(bytes);
    outcome = gantrain(words_of(command), {.folder = folder.path()});
  }
  INFO(outcome.err);
  CHECK(outcome.code == 7);
  for (const std::string& name : named) {
    CAPTURE(name);
    CHECK(outcome.err.find(name) != std::string::npos);
  }
  CHECK(outcome.left.empty());
}

}  // namespace

TEST_CASE("NetworksThatDoNotFitAreRefusedWithTheSizesAndWhatToMakeSmaller") {
  const std::string network = "--preset dcgan --set dcgan.channels=65536 --resolution 64";
  const Words named = {"out of host memory: ",
                       "more were asked for",
                       "6.00 GiB (ulimit -v)",
                       "smaller networks (gantrain presets show NAME lists their keys)"};
  check_short(6 * kGiB, network + " --dry-run=full", named);
  for (const char* ranks : {" --nproc 1", " --nproc 2"}) {
    Words at_start = named;
    at_start.emplace_back("in phase \"set-up\" before the first iteration");
    check_short(6 * kGiB, network + ranks, at_start);
  }
}

TEST_CASE("ABatchThatDoesNotFitIsToBeCutIntoMicroBatches") {
  check_short(2 * kGiB,
              "--preset dcgan-tiny --threads 1 --metrics none --resolution 32 --batch 4096 "
              "--set data.synth_size=64",
              {"out of host memory: ", "in phase \"", "--micro-batch 2048 (4096 now"});
}

}  // namespace gantrain
