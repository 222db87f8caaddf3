// SPDX-License-Identifier: Apache-2.0
// What a command says and how it ends where the host has too little memory for it.
#include <sys/resource.h>

#include "support/catch.h"
#include "support/tiny.h"

namespace gantrain {
namespace {

constexpr rlim_t kGiB = 1 << 30;

// While it lives, commands may have so much address space each.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(rlim_t bytes) {
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

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
