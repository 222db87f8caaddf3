// SPDX-License-Identifier: Apache-2.0
// Trainings of a minute that the collapse alarm must tell apart.
#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

// A run that the alarm may end.
Outcome watched(const TemporaryFolder& folder, const std::string& preset, const std::string& more) {
  return gantrain(
      words_of("--preset " + preset +
               " --device cpu --threads 1 --metrics none --stop-on collapse --run-dir run "
               "--set train.tick=0.5 --set samples.every=1000 " +
               more),
      {.folder = folder.path()});
}

}  // namespace

TEST_CASE("HealthyTrainingsOfTinyPresetsRaiseNoAlarm") {
  for (const std::string preset : {"dcgan-tiny", "stylegan2-tiny"}) {
    CAPTURE(preset);
    const TemporaryFolder folder;
    const Outcome outcome =
        watched(folder, preset, "--kimg 4 --set metrics.collapse_after=2 --save-every 4");
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(outcome.err.find("collapse") == std::string::npos);
  }
}

}  // namespace gantrain
