// SPDX-License-Identifier: Apache-2.0
// R3GAN from outside: the same on any ranks, resumes in the middle of its schedules, weights in.
#include <cmath>

#include "config/value.h"
#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// 16 pixels, few feature maps; all schedules are on their way throughout.
std::string small_flags() {
  std::string flags =
      "--preset r3gan-tiny --kimg 0.16 --set train.tick=0.08 --set samples.rows=1 "
      "--set r3gan.width=16 --set r3gan.cardinality=4 --set r3gan.z_dim=16 "
      "--set data.synth_size=64 --set ema.half_life=0.1 ";
  const auto ramp = [&](const std::string& key, const char* from, const char* to) {
    flags += "--set " + key + R"(={"from":)" + from + R"(,"to":)" + to +
             R"(,"kimg":0.2,"shape":"cosine"} )";
  };
  ramp("G.adam.lr", "1e-3", "2e-4");
  ramp("D.adam.lr", "1e-3", "2e-4");
  ramp("G.adam.beta2", "0.9", "0.99");
  ramp("D.adam.beta2", "0.9", "0.99");
  ramp("r3gan.gamma", "1", "0.1");
  ramp("ada.p", "0.2", "0.8");
  return flags;
}
const std::string kSmallR3Gan = small_flags();

TEST_CASE("R3GanTrainsTheSameInEveryModeAndOnTwoRanksAsInTwoParts") {
  check_same_on_two_ranks(kSmallR3Gan + "--kimg 0.08 ");
}

TEST_CASE("R3GanTrainsTheSameOnTwoRanksWithLabelsAndLazyPenalties") {
  check_same_on_two_ranks(kSmallR3Gan + "--kimg 0.08 --cond on --set r3gan.penalty_interval=4 ");
}

TEST_CASE("R3GanTrainsTheSameOnTwoRanksWithLabelVectors") {
  check_same_on_two_ranks(kSmallR3Gan + "--kimg 0.08 --data synth:shapes-attributes --cond on ");
}

TEST_CASE("R3GanWithDiffAugmentTrainsTheSameOnTwoRanks") {
  check_same_on_two_ranks(kSmallR3Gan + "--kimg 0.08 --set augment.mode=diff ");
}

TEST_CASE("R3GanResumesBitForBitInTheMiddleOfItsSchedules") {
  const TemporaryFolder folder;
  const std::string whole = model_sha(train(folder, "whole", kSmallR3Gan + "--nproc 2"));
  const Outcome stopped =
      gantrain(tiny(kSmallR3Gan + "--nproc 2 --run-dir parts --set save.every=0.064 --kimg 0.08"),
               {.folder = folder.path()});
  REQUIRE(stopped.code == 0);
  CHECK(model_sha(train(folder, "parts", kSmallR3Gan + "--nproc 2")) == whole);
}

TEST_CASE("R3GanResumesBitForBitWithLabelVectors") {
  const TemporaryFolder folder;
  const std::string flags = kSmallR3Gan + "--data synth:shapes-attributes --cond on ";
  const std::string whole = model_sha(train(folder, "whole", flags));
  train(folder, "parts", flags + "--kimg 0.08");
  CHECK(model_sha(train(folder, "parts", flags)) == whole);
}

TEST_CASE("R3GanInReducedPrecisionTrains") {
  const TemporaryFolder folder;
  for (const std::string how : {"--amp=bf16", "--amp=fp16 --set precision.mode=blocks"}) {
    const fs::path run = train(folder, how.substr(6, 4), kSmallR3Gan + "--kimg 0.032 " + how);
    const std::vector<std::string> lines = split(trim(read_file(run / "stats.jsonl")), '\n');
    CHECK(std::isfinite(Json::parse(lines.back())["Loss/G/loss"]["mean"].get<double>()));
  }
}

TEST_CASE("R3GanStartsFromAModelOfAnotherSize") {
  const TemporaryFolder folder;
  const fs::path source = trained(folder, "source", kSmallR3Gan + "--save-raw --kimg 0.016");
  const fs::path doubled = train(
      folder, "doubled", kSmallR3Gan + "--save-raw --kimg 0 --resolution 32 --init-from source");
  const FileTensors a = read_safetensors(last_model(source));
  const FileTensors b = read_safetensors(last_model(doubled));
  for (const char* name : {"Model.MainLayers.0.Layers.0.Basis",
                           "Model.MainLayers.2.Layers.1.LinearLayer2.Layer.weight"})
    CHECK(b.at(name).bytes == a.at(name).bytes);
  // D begins with the pictures: its last stage is the one of 4 pixels.
  const auto of_D = [](int stage, const std::string& rest) {
    return "D.Model.MainLayers." + std::to_string(stage) + ".Layers." + rest;
  };
  for (const std::string rest : {"1.Basis.weight", "0.LinearLayer2.Layer.weight"})
    CHECK(b.at(of_D(3, rest)).bytes == a.at(of_D(2, rest)).bytes);
  CHECK(b.at(of_D(1, "0.LinearLayer1.Layer.weight")).bytes ==
        a.at(of_D(0, "0.LinearLayer1.Layer.weight")).bytes);
  CHECK_THAT(read_file(doubled / "log.txt"), !Catch::Contains("fit with"));
  // Other widths: the log names the keys, and so does the error where nothing fits.
  const fs::path wider = train(
      folder, "wider", kSmallR3Gan + "--kimg 0 --set r3gan.width=16:24,16 --init-from source");
  CHECK_THAT(read_file(wider / "log.txt"), Catch::Contains("fit with --set r3gan.width=16\n"));
  const Outcome refused = gantrain(
      tiny(kSmallR3Gan + "--kimg 0 --set r3gan.width=24 --set r3gan.z_dim=20 --init-from source"),
      {.folder = folder.path()});
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, Catch::Contains("--set r3gan.width=16 --set r3gan.z_dim=16"));
}

TEST_CASE("ARunOfR3GanIsRehearsedWhole") {
  const TemporaryFolder folder;
  const auto rehearse = [&](const std::string& more) {
    return gantrain(tiny(kSmallR3Gan + "--run-dir planned --dry-run=full " + more),
                    {.folder = folder.path()});
  };
  const Outcome labelled = rehearse("--cond on");
  INFO(labelled.err);
  CHECK(labelled.code == 0);
  CHECK_THAT(labelled.out, Catch::Contains("Model.EmbeddingLayer.weight"));
  const Outcome planned = rehearse("");
  INFO(planned.err);
  CHECK(planned.code == 0);
  CHECK_THAT(planned.out, !Catch::Contains("Model.EmbeddingLayer.weight"));
}

}  // namespace
}  // namespace gantrain
