// SPDX-License-Identifier: Apache-2.0
// StyleGAN2 from outside: all phases on, augmentation at work from the first picture.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// 16 pixels, few feature maps, one iteration 16 pictures: ten, or five where the first path lengths
// and R1 are enough.
const std::string kStyleGan2 =
    "--preset stylegan2-tiny --kimg 0.16 --set train.tick=0.08 --set samples.rows=1 "
    "--set stylegan2.channel_max=16 --set stylegan2.z_dim=16 --set stylegan2.w_dim=16 "
    "--set data.synth_size=64 --set ada.p=0.5 --set ada.kimg=1 ";
const std::string kShortStyleGan2 = kStyleGan2 + "--kimg 0.08 ";

TEST_CASE("StyleGan2TrainsTheSameInEveryModeAndOnTwoRanksAsInTwoParts") {
  check_same_on_two_ranks(kShortStyleGan2, "--ddp-scope whole");
}

TEST_CASE("LabelsAreTheSameOnTwoRanksAsInTwoParts") {
  const TemporaryFolder folder;
  const std::string same = kShortStyleGan2 + "--cond on ";
  const fs::path one = train(folder, "one", same + "--accumulate 2");
  CHECK(model_sha(train(folder, "two", same + "--nproc 2")) == model_sha(one));
  CHECK(read_safetensors(last_model(one)).count("mapping.embed.weight") == 1);
}

TEST_CASE("StyleGan2TrainsTheSameInEveryModeWithLabelVectors") {
  check_same_on_two_ranks(kShortStyleGan2 + "--data synth:shapes-attributes --cond on ");
}

TEST_CASE("StyleGan2ResumesBitForBitWithLabelVectors") {
  const TemporaryFolder folder;
  const std::string flags = kStyleGan2 + "--data synth:shapes-attributes --cond on ";
  const std::string whole = model_sha(train(folder, "whole", flags));
  train(folder, "parts", flags + "--kimg 0.08");
  CHECK(model_sha(train(folder, "parts", flags)) == whole);
}

// Path lengths aside, which see the first half of each micro-batch.
TEST_CASE("FourRanksFollowOneUndividedBatchWithStyleGan2") {
  const TemporaryFolder folder;
  const std::string same =
      kShortStyleGan2 + "--set train.dtype=float64 --set stylegan2.pl_weight=0 ";
  const fs::path one = train(folder, "one", same);
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one));
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    const fs::path four = train(folder, mode, same + "--nproc 4 --ddp-mode " + mode);
    const FileTensors b = read_safetensors(last_model(four));
    double moved = 0, apart = 0;
    for (const auto& [name, tensor] : a) {
      moved = std::max(moved, max_distance(tensor, start.at(name)));
      apart = std::max(apart, max_distance(tensor, b.at(name)));
    }
    CHECK(moved > 1e-4);
    CHECK(apart > 0);
    CHECK(apart <= 1e-10 * moved);
  }
}

// Stops at the first tick, with p, path lengths and averages on their way.
TEST_CASE("StyleGan2ResumesBitForBit") {
  const TemporaryFolder folder;
  const std::string whole = model_sha(train(folder, "whole", kStyleGan2 + "--nproc 2"));
  const Outcome stopped =
      gantrain(tiny(kStyleGan2 + "--nproc 2 --run-dir parts --set save.every=0.064 --kimg 0.08"),
               {.folder = folder.path()});
  REQUIRE(stopped.code == 0);
  const fs::path parts = train(folder, "parts", kStyleGan2 + "--nproc 2");
  CHECK(model_sha(parts) == whole);
}

TEST_CASE("StatisticsOfStyleGan2HaveTheFieldsNames") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", kStyleGan2);
  const std::vector<std::string> lines = split(trim(read_file(run / "stats.jsonl")), '\n');
  const auto first = nlohmann::ordered_json::parse(lines.front());
  for (const char* name : {"Loss/G/loss",
                           "Loss/G/reg",
                           "Loss/D/loss",
                           "Loss/D/reg",
                           "Loss/scores/real",
                           "Loss/scores/fake",
                           "Loss/signs/real",
                           "Loss/r1_penalty",
                           "Loss/pl_penalty",
                           "Progress/augment"}) {
    CAPTURE(name);
    CHECK(first.contains(name));
  }
  const auto last = nlohmann::ordered_json::parse(lines.back());
  CHECK(first["Progress/augment"]["mean"] != last["Progress/augment"]["mean"]);
}

TEST_CASE("PicturesOfOneTwoAndFourChannelsAreLearned") {
  const TemporaryFolder folder;
  for (const char* channels : {"1", "2", "4"}) {
    const fs::path run = train(folder,
                               std::string("c") + channels,
                               kStyleGan2 + "--kimg 0.032 --set data.channels=" + channels);
    const FileTensors model = read_safetensors(last_model(run));
    CHECK(std::to_string(model.at("synthesis.b16.torgb.weight").shape.front()) == channels);
  }
}

TEST_CASE("FrozenLayersOfDStayAsTheyAre") {
  const TemporaryFolder folder;
  train(folder, "from", kShortStyleGan2 + "--kimg 0.016");
  const std::string begun = kShortStyleGan2 + "--init-from from ";
  const fs::path run = train(folder, "run", begun + "--set stylegan2.freeze_d=3");
  const FileTensors start = read_safetensors(files_like(run, "model-").front());
  const FileTensors end = read_safetensors(last_model(run));
  CHECK(max_distance(end.at("D.b16.conv1.weight"), start.at("D.b16.conv1.weight")) == 0);
  CHECK(max_distance(end.at("D.b16.skip.weight"), start.at("D.b16.skip.weight")) > 0);
  for (const auto& [flags, said] : std::vector<std::pair<std::string, std::string>>{
           {kShortStyleGan2 + "--set freeze_d=3", "freeze_d = 3: without --init-from"},
           {begun + "--set freeze_d=8", "freeze_d = 8: D has 7 layers"},
           {begun + "--resolution 32 --set freeze_d=1", "D's b32.fromrgb came without weights"}}) {
    const Outcome refused = gantrain(tiny("--run-dir refused " + flags), {.folder = folder.path()});
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(holds(refused.err, said));
    CHECK_FALSE(fs::exists(folder / "refused"));
  }
}

TEST_CASE("WhatIsChosenForTheRanksIsSaidAndKeptWhenTheyChange") {
  const TemporaryFolder folder;
  const std::string automatic =
      kShortStyleGan2 + "--set stylegan2.automatic=on --set stylegan2.gamma=auto ";
  const Outcome dry = gantrain(tiny("--nproc 4 --dry-run " + automatic), {.folder = folder.path()});
  REQUIRE(dry.code == 0);
  CHECK_THAT(dry.out, Catch::Contains("stylegan2.gamma 0.0032 = 0.0002 x 16^2 / 16"));
  CHECK_THAT(dry.out, Catch::Contains("auto (16 pixels, 4 ranks)"));
  train(folder, "run", automatic + "--batch 12 --kimg 0.048");
  const Outcome resumed = gantrain(tiny("--run-dir run " + automatic + "--batch 12 --nproc 2"),
                                   {.folder = folder.path()});
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.err, Catch::Contains("other values as run began with"));
}

}  // namespace
}  // namespace gantrain
