// SPDX-License-Identifier: Apache-2.0
// Networks that grow, from outside: through every stage to 16 pixels.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Stages begin at 0 (4 pixels), 32 (8, fading), 80 (8), 112 (16, fading) and 160 (16) images; one
// iteration is 16 pictures. StyleGAN v1 is made to start at 4 pixels too.
const std::string kSchedule =
    "--kimg 0.192 --set train.tick=0.016 --set samples.rows=1 --set data.synth_size=64 "
    "--set schedule.start=4 --set schedule.stable_kimg=0.032 --set schedule.fade_kimg=0.048 ";

std::string growing(const std::string& recipe) {
  return "--preset " + recipe + "-tiny " + kSchedule + "--set " + recipe + ".fmap_max=16 --set " +
         recipe + ".latent_size=16 ";
}

std::vector<nlohmann::ordered_json> statistics(const fs::path& run) {
  std::vector<nlohmann::ordered_json> rows;
  for (const std::string& line : split(trim(read_file(run / "stats.jsonl")), '\n'))
    rows.push_back(nlohmann::ordered_json::parse(line));
  return rows;
}

void check_modes(const std::string& recipe) {
  const TemporaryFolder folder;
  const std::string same = growing(recipe);
  const std::string one = model_sha(train(folder, "one", same + "--accumulate 2"));
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    CHECK(model_sha(train(folder, mode, same + "--nproc 2 --ddp-mode " + mode)) == one);
  }
  for (const std::string mode : {"wrapper", "dynamic"}) {
    CAPTURE(mode);
    const fs::path searching =
        train(folder, mode + "-on", same + "--nproc 2 --find-unused on --ddp-mode " + mode);
    CHECK(model_sha(searching) == one);
  }
  CHECK(model_sha(train(folder, "whole", same + "--nproc 2 --ddp-scope whole")) == one);
}

void check_four_ranks(const std::string& recipe, const std::string& optimizers) {
  const TemporaryFolder folder;
  const std::string same = growing(recipe) + optimizers + "--set train.dtype=float64 ";
  const fs::path one = train(folder, "one", same);
  const fs::path four = train(folder, "four", same + "--nproc 4");
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one));
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

// Seven points: switches (32, 80, 112, 160), a fade, and what lies before and behind them.
void check_resume(const std::string& recipe) {
  const TemporaryFolder folder;
  const std::string same = growing(recipe) + "--set save.every=0.016 --keep-last 12 ";
  const std::string whole = model_sha(train(folder, "whole", same));
  for (const char* kimg : {"0.016", "0.032", "0.064", "0.08", "0.112", "0.16", "0.176"}) {
    CAPTURE(kimg);
    const std::string state = fmt::format("whole/state-{:010.3f}.pt", std::stod(kimg));
    const fs::path resumed = train(folder, kimg, same + "--resume " + state);
    CHECK_THAT(read_file(resumed / "log.txt"), Catch::Contains("resume  at " + std::string(kimg)));
    CHECK(sha256(read_file(files_like(resumed, "model-000000.192").front())) == whole);
  }
}

// float32 numbers of a network's parameters with these parts of their names.
double active_bytes(const FileTensors& model, const std::string& player, const Words& parts) {
  double bytes = 0;
  for (const auto& [name, tensor] : model) {
    const bool active = std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
      return starts_with(name, player + "." + part);
    });
    if (active) bytes += static_cast<double>(tensor.bytes.size());
  }
  return bytes;
}

}  // namespace

TEST_CASE("PgganGrowsTheSameInEveryModeAndOnTwoRanksAsInTwoParts") { check_modes("pggan"); }
TEST_CASE("StyleGan1GrowsTheSameInEveryModeAndOnTwoRanksAsInTwoParts") { check_modes("stylegan1"); }
TEST_CASE("FourRanksFollowOneUndividedBatchOfPgganThroughItsStages") {
  check_four_ranks("pggan", "");
}
// Not with Adam: the first layer's map is constant while its noise weighs nothing, its bias then
// has no effect, and Adam makes steps of 4e-8 out of the rounding of its gradient.
TEST_CASE("FourRanksFollowOneUndividedBatchOfStyleGan1ThroughItsStages") {
  check_four_ranks("stylegan1",
                   "--set G.optimizer=sgd --set D.optimizer=sgd --set G.sgd.lr=0.05 "
                   "--set D.sgd.lr=0.05 ");
}
TEST_CASE("PgganResumesBitForBitInFadesAndAtSwitches") { check_resume("pggan"); }
TEST_CASE("StyleGan1ResumesBitForBitInFadesAndAtSwitches") { check_resume("stylegan1"); }

TEST_CASE("LabelsLossesAndChannelsOfNetworksThatGrowAreTheSameOnTwoRanksAsInTwoParts") {
  const TemporaryFolder folder;
  const std::string stylegan1 = growing("stylegan1"), pggan = growing("pggan");
  int number = 0;
  for (const std::string& same :
       {stylegan1 + "--cond on ",
        stylegan1 + "--cond on --set stylegan1.loss=wgan-gp ",
        stylegan1 + "--set stylegan1.loss=saturating --set stylegan1.r2_gamma=1 "
                    "--set stylegan1.penalty_size=fullres ",
        stylegan1 + "--set stylegan1.loss=hinge --set data.channels=4 ",
        pggan + "--set pggan.gp_size=fullres --set data.channels=1 --set G.steps=2 ",
        pggan + "--set pggan.fused_scale=off --set D.steps=2 --set schedule.fade_kimg=0 ",
        pggan + "--set schedule.reset_optimizers=off --set schedule.start=16 "}) {
    CAPTURE(same);
    const std::string name = std::to_string(++number);
    CHECK(model_sha(train(folder, name + "b", same + "--nproc 2 --ddp-mode wrapper")) ==
          model_sha(train(folder, name + "a", same + "--accumulate 2")));
  }
}

TEST_CASE("OnlyActiveParametersGoOverTheWire") {
  const TemporaryFolder folder;
  const fs::path run = train(folder, "run", growing("pggan") + "--nproc 2");
  const FileTensors model = read_safetensors(last_model(run));
  const std::vector<nlohmann::ordered_json> rows = statistics(run);
  const auto bytes = [&](int64_t images, const char* key) {
    for (const auto& row : rows) {
      if (std::abs(row["Progress/kimg"]["mean"].get<double>() - 1e-3 * images) < 1e-6)
        return row[key]["mean"].get<double>();
    }
    return -1.0;
  };
  // The row that ends with these images is about the iteration before.
  CHECK(bytes(32, "Comm/D/bytes") == active_bytes(model, "D", {"4x4.", "FromRGB_lod2."}));
  CHECK(bytes(32, "Comm/G/bytes") == active_bytes(model, "G", {"4x4.", "ToRGB_lod2."}));
  CHECK(bytes(80, "Comm/G/bytes") ==
        active_bytes(model, "G", {"4x4.", "8x8.", "ToRGB_lod2.", "ToRGB_lod1."}));
  CHECK(bytes(112, "Comm/G/bytes") == active_bytes(model, "G", {"4x4.", "8x8.", "ToRGB_lod1."}));
  CHECK(bytes(192, "Comm/D/bytes") ==
        active_bytes(model, "D", {"4x4.", "8x8.", "16x16.", "FromRGB_lod0."}));
}

TEST_CASE("AStateOfAnotherScheduleOrSizeIsRefusedWithItsStage") {
  const TemporaryFolder folder;
  trained(folder, "run", growing("pggan") + "--kimg 0.096");
  const std::string again = growing("pggan") + "--run-dir run ";
  const auto refused = [&](const std::string& more) {
    const Outcome outcome = gantrain(tiny(again + more), {.folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err.substr(outcome.err.rfind("error"))));
    return outcome.err;
  };
  const std::string size = refused("--resolution 32");
  CHECK_THAT(size, Catch::Contains("stage 3 of 5: 8 pixels, stable"));
  CHECK_THAT(size, Catch::Contains("data.resolution 16 -> 32"));
  CHECK_THAT(refused("--set schedule.fade_kimg=0.016"),
             Catch::Contains("stage 3 of 5: 8 pixels, stable") &&
                 Catch::Contains("schedule.fade_kimg 0.048 -> 0.016"));
  CHECK_THAT(refused("--set schedule.batch=4:16"), Catch::Contains("no value for 8 pixels"));
  CHECK_THAT(refused("--set schedule.start=32"), Catch::Contains("larger than data.resolution"));
  // Forced, it still must be a stage of this schedule.
  const Outcome forced =
      gantrain(tiny(again + "--set schedule.fade_kimg=4 --force schedule.fade_kimg"),
               {.folder = folder.path()});
  CHECK(forced.code == 3);
  CHECK_THAT(forced.err, Catch::Contains("saved at 0.096 kimg in its stage 3"));
}

TEST_CASE("ADryRunPrintsTheStages") {
  const TemporaryFolder folder;
  const Outcome dry =
      gantrain(words_of("--preset pggan --resolution 1024 --nproc 8 --device cpu --dry-run"),
               {.folder = folder.path()});
  REQUIRE(dry.code == 0);
  CHECK_THAT(dry.out,
             Catch::Contains("    1          0      600       4  1           512      64"));
  CHECK_THAT(dry.out,
             Catch::Contains("   17       9600     2400    1024  1            32       4"));
  const Outcome json = gantrain(
      words_of(
          "--preset stylegan1 --resolution 64 --nproc 2 --batch 32 --device cpu --dry-run --json"),
      {.folder = folder.path()});
  REQUIRE(json.code == 0);
  const auto stages = nlohmann::ordered_json::parse(json.out)["schedule"]["stages"];
  REQUIRE(stages.size() == 7);
  CHECK(stages[0]["resolution"] == 8);
  for (const auto& stage : stages) CHECK(stage["batch"] == 32);
  CHECK(stages[1]["fading"] == true);
  CHECK(stages[6]["kimg"] == 25000 - 3600);
}

TEST_CASE("ABatchThatIsNoMultipleOfTheStatisticsGroupIsSaidAndTrains") {
  const TemporaryFolder folder;
  for (const std::string recipe : {"pggan", "stylegan1", "stylegan2"}) {
    CAPTURE(recipe);
    const std::string same =
        recipe == "stylegan2"
            ? "--preset stylegan2-tiny --set stylegan2.channel_max=16 --set data.synth_size=64 "
            : growing(recipe);
    const Outcome outcome =
        gantrain(tiny(same + "--nproc 1 --batch 10 --kimg 0.02 --run-dir " + recipe),
                 {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    const std::string said =
        "D's micro-batch of 10 is not a multiple of the 4 samples of a minibatch-std group";
    CHECK_THAT(outcome.err, Catch::Contains(said));
    const Outcome dry =
        gantrain(tiny(same + "--nproc 1 --batch 10 --dry-run"), {.folder = folder.path()});
    CHECK_THAT(dry.err, Catch::Contains(said));
  }
}

TEST_CASE("AModelDrawsTheStageThatItWasSavedIn") {
  const TemporaryFolder folder;
  const fs::path run = trained(folder, "run", growing("pggan") + "--kimg 0.096");
  const std::string draw = "generate run --seeds 1 --format npy --outdir ";
  REQUIRE(gantrain(words_of(draw + "own"), {.folder = folder.path()}).code == 0);
  REQUIRE(gantrain(words_of(draw + "level --level 8"), {.folder = folder.path()}).code == 0);
  REQUIRE(gantrain(words_of(draw + "full --level 16"), {.folder = folder.path()}).code == 0);
  const std::string own = read_file(folder / "own" / "seed0001.npy");
  CHECK(own == read_file(folder / "level" / "seed0001.npy"));
  CHECK(own.size() < read_file(folder / "full" / "seed0001.npy").size());
}

}  // namespace gantrain
