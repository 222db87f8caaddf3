// SPDX-License-Identifier: Apache-2.0
// Mixed precision from outside.
#include <array>
#include <cstdlib>

#include "config/value.h"
#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// 16 pixels, few feature maps, batch 16.
const std::string kStyleGan2Blocks =
    "--preset stylegan2-tiny --set samples.rows=1 --set stylegan2.channel_max=16 "
    "--set stylegan2.z_dim=16 --set stylegan2.w_dim=16 --set data.synth_size=64 "
    "--set ada.p=0.5 --set ada.kimg=1 ";
const std::string kStyleGan2Blocks3 =
    "--preset stylegan3-tiny --set samples.rows=1 --set stylegan3.channel_max=16 "
    "--set stylegan3.d_channel_max=16 --set stylegan3.num_layers=4 --set stylegan3.margin=2 "
    "--set stylegan3.z_dim=16 --set stylegan3.w_dim=16 --set data.synth_size=64 "
    "--set ada.p=0.5 --set ada.kimg=1 ";
const std::string kR3Gan =
    "--preset r3gan-tiny --set samples.rows=1 --set r3gan.width=16 --set r3gan.cardinality=4 "
    "--set r3gan.z_dim=16 --set data.synth_size=64 --set ada.p=0.5 ";
const std::string kWasserstein =
    "--preset wgan-gp --set dcgan.channels=32 --set dcgan.d_channels=8 ";

// Through five stages in 0.112 kimg: they begin at 0 (4 pixels), 16 (8, fading), 48 (8), 64 (16,
// fading) and 96 (16) images.
const std::string kGrowing =
    "--set samples.rows=1 --set data.synth_size=64 --set schedule.start=4 "
    "--set schedule.stable_kimg=0.016 --set schedule.fade_kimg=0.032 ";
const std::string kPggan =
    "--preset pggan-tiny --set pggan.fmap_max=16 --set pggan.latent_size=16 " + kGrowing;
const std::string kStyleGan2Blocks1 =
    "--preset stylegan1-tiny --set stylegan1.fmap_max=16 --set stylegan1.latent_size=16 " +
    kGrowing;

struct Trained {
  std::string name, flags, kimg;
  bool has_batch_norm = false;  // its statistics are those of each rank's own batch
};

const std::vector<Trained>& recipes() {
  static const std::vector<Trained> all = {{"dcgan", "", "0.032", true},
                                           {"wgan-gp", kWasserstein, "0.032", true},
                                           {"stylegan2", kStyleGan2Blocks, "0.032"},
                                           {"stylegan3", kStyleGan2Blocks3, "0.032"},
                                           {"r3gan", kR3Gan, "0.032"},
                                           {"pggan", kPggan, "0.112"},
                                           {"stylegan1", kStyleGan2Blocks1, "0.112"}};
  return all;
}

std::vector<Json> stats(const fs::path& run) {
  std::vector<Json> lines;
  for (const std::string& line : split(trim(read_file(run / "stats.jsonl")), '\n'))
    lines.push_back(Json::parse(line));
  return lines;
}

double images_in(const fs::path& run) { return mean_of(stats(run).back(), "Progress/kimg") * 1e3; }

TEST_CASE("EveryRecipeTrainsInBfloat16InEveryModeOnTwoRanksAsInTwoParts") {
  const TemporaryFolder folder;
  for (const auto& [name, flags, kimg, has_batch_norm] : recipes()) {
    CAPTURE(name);
    const std::string same =
        flags + "--kimg " + kimg +
        (has_batch_norm ? " --set dcgan.norm=none --set dcgan.g_norm=none " : " ");
    const std::string lowered = same + "--amp=bf16 ";
    const std::string full = model_sha(train(folder, name + "-full", same + "--accumulate 2"));
    const std::string one = model_sha(train(folder, name, lowered + "--accumulate 2"));
    CHECK(one != full);
    for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
      CAPTURE(mode);
      const fs::path two = train(folder, name + mode, lowered + "--nproc 2 --ddp-mode " + mode);
      CHECK(model_sha(two) == one);
    }
  }
}

TEST_CASE("EveryRecipeTrainsInFloat16OnTwoCpuRanksWithinTime") {
  const TemporaryFolder folder;
  for (const auto& [name, flags, kimg, has_batch_norm] : recipes()) {
    CAPTURE(name);
    const Outcome outcome =
        gantrain(tiny("--run-dir " + name + " " + flags + "--amp=fp16 --kimg 0.112 --nproc 2"),
                 {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.seconds < 100);
    const Json last = stats(folder / name).back();
    for (const char* player : {"G", "D"}) {
      CHECK(mean_of(last, std::string("AMP/") + player + "/scale") > 1);
      CHECK(last.contains(std::string("AMP/") + player + "/skipped"));
    }
  }
}

// The scale starts far too high: steps are left out until it fits.
TEST_CASE("StepsThatAreLeftOutAreCountedAndTheirImagesOnce") {
  const TemporaryFolder folder;
  const fs::path run = train(folder,
                             "run",
                             "--amp=fp16 --set precision.initial_scale=1e9 --set train.tick=0.08 "
                             "--set precision.growth_interval=8");
  const std::vector<Json> lines = stats(run);
  CHECK(mean_of(lines.front(), "AMP/D/skipped") >= 3);
  CHECK(mean_of(lines.back(), "AMP/D/skipped") < 3);
  CHECK(mean_of(lines.front(), "AMP/D/scale") > mean_of(lines.back(), "AMP/D/scale"));
  const Json counted = stats(train(folder, "float32", "--set train.tick=0.08")).back();
  CHECK(images_in(run) == mean_of(counted, "Progress/kimg") * 1e3);
  CHECK(mean_of(counted, "AMP/D/skipped") == 0);
  CHECK_FALSE(counted.contains("AMP/D/scale"));
}

TEST_CASE("AScaleBelowItsFloorIsExit5AndNamesAParameter") {
  const TemporaryFolder folder;
  const Outcome outcome = gantrain(tiny("--amp=fp16 --set precision.initial_scale=1e15 "
                                        "--set precision.min_scale=1e12 --run-dir run --nproc 2"),
                                   {.folder = folder.path()});
  CHECK(outcome.code == 5);
  CHECK_THAT(outcome.err, Catch::Contains("precision.min_scale = 1000000000000"));
  CHECK_THAT(outcome.err, Catch::Contains("the gradient of D.main."));
}

// Rates beyond all measure.
TEST_CASE("DivergenceIsExit5AndNamesAParameter") {
  const TemporaryFolder folder;
  const std::string wild =
      "--set D.optimizer=sgd --set D.sgd.lr=1000 --set G.optimizer=sgd "
      "--set G.sgd.lr=1000 --set dcgan.norm=none --set dcgan.loss=lsgan ";
  const Outcome stopped = gantrain(tiny(wild + "--set train.on_nonfinite=stop --run-dir stop"),
                                   {.folder = folder.path()});
  CHECK(stopped.code == 5);
  CHECK_THAT(stopped.err, Catch::Contains("train.on_nonfinite = stop"));
  const Outcome limited = gantrain(tiny(wild + "--set train.nonfinite_limit=4 --run-dir limit"),
                                   {.folder = folder.path()});
  CHECK(limited.code == 5);
  CHECK_THAT(limited.err, Catch::Contains("train.nonfinite_limit"));
  CHECK_THAT(limited.err, Catch::Contains("the gradient of D.main."));
}

TEST_CASE("ResumeIsBitExactUnderAmp") {
  const TemporaryFolder folder;
  // The scale of float16 needs some iterations until it fits.
  for (const auto& [amp, half, end] : {std::array<std::string, 3>{"bf16", "0.032", "0.064"},
                                       std::array<std::string, 3>{"fp16", "0.16", "0.32"}}) {
    CAPTURE(amp);
    const std::string same =
        "--nproc 2 --set precision.growth_interval=3 "
        "--set precision.initial_scale=1e9 --amp=" +
        amp + " ";
    const fs::path whole = train(folder, "whole-" + amp, same + "--kimg " + end);
    const Outcome stopped = gantrain(tiny(same + "--kimg " + half + " --run-dir parts-" + amp),
                                     {.folder = folder.path()});
    REQUIRE(stopped.code == 0);
    const fs::path parts = train(folder, "parts-" + amp, same + "--kimg " + end);
    CHECK(model_sha(parts) == model_sha(whole));
    // In the middle of a fade and at a switch.
    const std::string growing = kPggan + "--metrics none --amp=" + amp + " ";
    const std::string grown = model_sha(train(folder, "grown-" + amp, growing + "--kimg 0.112"));
    for (const std::string kimg : {"0.032", "0.064"}) {
      CAPTURE(kimg);
      train(folder, kimg + amp, growing + "--kimg " + kimg);
      CHECK(model_sha(train(folder, kimg + amp, growing + "--kimg 0.112")) == grown);
    }
    if (amp == "fp16") {
      CHECK(mean_of(stats(parts).back(), "AMP/D/scale") > 0);
      CHECK_THAT(read_file(parts / "log.txt"), Catch::Contains("resume  at 0.16 kimg"));
    }
  }
}

TEST_CASE("AnotherPrecisionAtResumeIsAsked") {
  const TemporaryFolder folder;
  trained(folder, "run", "--amp=bf16 --kimg 0.032");
  const Outcome other =
      gantrain(tiny("--amp=fp16 --kimg 0.064 --run-dir run"), {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("precision.amp bf16 -> fp16"));
  train(folder, "run", "--amp=fp16 --kimg 0.064 --force precision.amp");
}

TEST_CASE("WhatCannotBeLoweredIsExit2") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--amp --set precision.mode=blocks", "recipe dcgan"},
      {kPggan + "--amp --set precision.mode=blocks", "recipe pggan"},
      {"--amp=fp8", "off|auto|fp16|bf16"},
      {"--amp=bf16 --set train.dtype=float64", "float64 is never lowered"},
      {"--loss-scale 0", "auto|dynamic|number"},
      {kStyleGan2Blocks + "--amp=bf16 --set precision.mode=blocks", "the blocks are fp16"},
      {"--amp --set precision.keep_float32=E", "E is no network or block"}};
  for (const auto& [flags, reason] : wrong) {
    CAPTURE(flags);
    const Outcome outcome = gantrain(tiny("--run-dir r " + flags), {.folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, Catch::Contains(reason));
  }
}

// The program alone is one, without its libraries.
TEST_CASE("ABuildWithoutTheDeviceCannotLowerOnIt") {
  const TemporaryFolder folder;
  fs::copy_file(gantrain_program(), folder / "gantrain");
  const std::string command = "cd '" + folder.path().string() +
                              "' && ./gantrain --preset dcgan-tiny --device cuda --amp 2> err";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK_THAT(read_file(folder / "err"), Catch::Contains("this build has no CUDA library"));
}

TEST_CASE("StyleGan2TrainsWithHalfBlocksOfItsOwn") {
  const TemporaryFolder folder;
  const fs::path run = train(
      folder, "run", kStyleGan2Blocks + "--amp --set precision.mode=blocks --kimg 0.064 --nproc 2");
  CHECK_THAT(read_file(run / "log.txt"), Catch::Contains("float16 in blocks"));
  const Json last = stats(run).back();
  CHECK(mean_of(last, "AMP/G/skipped") == 0);
  CHECK_FALSE(last.contains("AMP/G/scale"));
  // Pictures are drawn from it as from any other.
  const Outcome drawn =
      gantrain(words_of("generate --model run --seeds 0-3 -o grid.png"), {.folder = folder.path()});
  CHECK(drawn.code == 0);
}

TEST_CASE("TheDryRunSaysWhatEveryBlockComputesIn") {
  const TemporaryFolder folder;
  const auto table = [&](const std::string& flags) {
    const Outcome outcome =
        gantrain(tiny(flags + " --dry-run=full --json"), {.folder = folder.path()});
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out)["compute"];
  };
  const auto row = [](const char* block, const char* type, const char* why) {
    return Json{{"block", block}, {"parameters", "float32"}, {"computes", type}, {"why", why}};
  };
  CHECK(table("--amp=fp16 --set precision.keep_float32=G.main.6") ==
        Json{row("G.main.0", "float16", "autocast"),
             row("G.main.1", "float32", "statistics"),
             row("G.main.3", "float16", "autocast"),
             row("G.main.4", "float32", "statistics"),
             row("G.main.6", "float32", "precision.keep_float32"),
             row("D.main.0", "float16", "autocast"),
             row("D.main.2", "float16", "autocast"),
             row("D.main.3", "float32", "statistics"),
             row("D.main.5", "float32", "the last 4x4 block: scores")});
  for (const Json& line : table("")) CHECK(line["computes"] == "float32");
  const Outcome text = gantrain(tiny("--amp=bf16 --dry-run=full"), {.folder = folder.path()});
  CHECK_THAT(text.out, Catch::Contains("block") && Catch::Contains("computes in"));
  CHECK_THAT(text.out, Catch::Contains("bfloat16     autocast"));
}

// Which types they are depends on the processor.
TEST_CASE("PlainAmpOnACpuSaysWhatItChoseAndKeepsIt") {
  const TemporaryFolder folder;
  const Outcome outcome =
      gantrain(tiny(kStyleGan2Blocks + "--device cpu --amp --dry-run=full --json"),
               {.folder = folder.path()});
  REQUIRE(outcome.code == 0);
  const Json all = Json::parse(outcome.out);
  CHECK_THAT(all["amp"].get<std::string>(), Catch::Contains("bfloat16"));
  for (const Json& row : all["products"]) {
    CHECK(row["float32"].get<double>() > 0);
    const bool faster = row["bfloat16"].get<double>() < row["float32"].get<double>();
    CHECK((faster || row["computes"] == "float32"));
  }
  const std::string same = kStyleGan2Blocks + "--device cpu --amp --nproc 2 --kimg ";
  const fs::path run = train(folder, "run", same + "0.032");
  CHECK_THAT(read_file(run / "log.txt"), Catch::Contains("amp     "));
  const auto choice = [&run] {
    return Json::parse(read_file(run / "config.json"))["values"]["precision.cpu_choice"]["value"];
  };
  const Json chosen = choice();
  CHECK(chosen != "auto");
  train(folder, "run", same + "0.064");
  CHECK(choice() == chosen);
}

TEST_CASE("TheHelpOnAmpHasOtherProgramsNames") {
  const Outcome help = gantrain(words_of("help amp"));
  CHECK(help.code == 0);
  for (const char* name :
       {"apex O1", "scale_loss", "init_scale=512", "AmpOptimWrapper", "accumulative_counts=8"})
    CHECK_THAT(help.out, Catch::Contains(name));
}

TEST_CASE("ClippedGradientsAreReported") {
  const TemporaryFolder folder;
  const fs::path run = train(folder, "run", "--amp=fp16 --kimg 0.16 --set optim.clip_norm=0.001");
  CHECK(mean_of(stats(run).back(), "Gradients/D/norm") > 0.001);
  CHECK(model_sha(run) != model_sha(train(folder, "free", "--amp=fp16 --kimg 0.16")));
}

}  // namespace
}  // namespace gantrain
