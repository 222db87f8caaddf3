// SPDX-License-Identifier: Apache-2.0
// StyleGAN3 from outside: all phases, the fade of configuration R's blur, moved pictures.
#include <algorithm>
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

// 16 pixels, few layers and feature maps; the augmentation is on from the first picture.
const std::string kStyleGan3 =
    "--preset stylegan3-tiny --kimg 0.16 --set train.tick=0.08 --set samples.rows=1 "
    "--set stylegan3.num_layers=4 --set stylegan3.margin=2 --set stylegan3.channel_max=8 "
    "--set stylegan3.d_channel_max=16 --set stylegan3.z_dim=16 --set stylegan3.w_dim=16 "
    "--set stylegan3.d_interval=4 --set data.synth_size=64 --set ada.p=0.5 --set ada.kimg=1 ";
// In the fade of the blur throughout.
const std::string kRotating =
    kStyleGan3 + "--set stylegan3.config=r --set stylegan3.blur_fade=0.2 ";

TEST_CASE("StyleGan3TrainsTheSameInEveryModeAndOnTwoRanksAsInTwoParts") {
  check_same_on_two_ranks(kStyleGan3 + "--kimg 0.08 ");
}

TEST_CASE("StyleGan3RTrainsTheSameOnTwoRanksAsInTwoPartsWithLabels") {
  check_same_on_two_ranks(kRotating + "--kimg 0.08 --cond on ");
}

// The distance of two runs' last models, in the distance that the first has moved.
double apart(const fs::path& one, const fs::path& other) {
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one)), b = read_safetensors(last_model(other));
  double moved = 0, distance = 0;
  for (const auto& [name, tensor] : a) {
    moved = std::max(moved, max_distance(tensor, start.at(name)));
    distance = std::max(distance, max_distance(tensor, b.at(name)));
  }
  REQUIRE(moved > 1e-4);
  return distance / moved;
}

// Each part of a batch moves the input magnitudes by its own mean before it uses them, so that
// what four ranks compute is what four parts do; one undivided batch has other magnitudes, unless
// they move so slowly that one batch does not count.
TEST_CASE("FourRanksFollowFourPartsAndWithSlowMagnitudesOneBatch") {
  const TemporaryFolder folder;
  const std::string same = kStyleGan3 + "--kimg 0.08 --set train.dtype=float64 ";
  const fs::path parts = train(folder, "parts", same + "--accumulate 4");
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    const fs::path four = train(folder, mode, same + "--nproc 4 --ddp-mode " + mode);
    CHECK(apart(parts, four) <= 1e-10);
  }
  // Sums of other parts are rounded otherwise, and Adam divides gradients that are nearly zero by
  // its epsilon: with 1e-8 that alone parts the runs by 3e-8.
  const std::string slow = same +
                           "--set stylegan3.magnitude_half_life=1e9 --set G.adam.eps=1e-4 "
                           "--set D.adam.eps=1e-4 ";
  const fs::path whole = train(folder, "whole", slow);
  const double distance = apart(whole, train(folder, "four", slow + "--nproc 4"));
  CHECK(distance > 0);
  CHECK(distance <= 1e-9);
}

// Stops at the first tick, in the fade of the blur, with p and averages on their way.
TEST_CASE("StyleGan3ResumesBitForBitInTheFadeOfTheBlur") {
  const TemporaryFolder folder;
  const std::string whole = model_sha(train(folder, "whole", kRotating + "--nproc 2"));
  const Outcome stopped =
      gantrain(tiny(kRotating + "--nproc 2 --run-dir parts --set save.every=0.064 --kimg 0.08"),
               {.folder = folder.path()});
  REQUIRE(stopped.code == 0);
  CHECK(model_sha(train(folder, "parts", kRotating + "--nproc 2")) == whole);
  const FileTensors model = read_safetensors(last_model(folder / "parts"));
  CHECK(model.at("synthesis.L0_20_16.magnitude_ema").bytes !=
        read_safetensors(files_like(folder / "parts", "model-").front())
            .at("synthesis.L0_20_16.magnitude_ema")
            .bytes);
}

TEST_CASE("StyleGan3InReducedPrecisionTrains") {
  const TemporaryFolder folder;
  for (const std::string how : {"--amp=bf16", "--amp=fp16 --set precision.mode=blocks"}) {
    const fs::path run = train(folder, how.substr(6, 4), kStyleGan3 + "--kimg 0.032 " + how);
    const std::vector<std::string> lines = split(trim(read_file(run / "stats.jsonl")), '\n');
    CHECK(std::isfinite(Json::parse(lines.back())["Loss/G/loss"]["mean"].get<double>()));
  }
}

// Other pixels and other widths: layers are matched by their number, and the log names the keys.
TEST_CASE("StyleGan3StartsFromAModelOfAnotherSize") {
  const TemporaryFolder folder;
  const fs::path source = trained(folder, "source", kStyleGan3 + "--kimg 0.016");
  const fs::path doubled =
      train(folder, "doubled", kStyleGan3 + "--kimg 0 --resolution 32 --init-from source");
  const FileTensors a = read_safetensors(last_model(source));
  const FileTensors b = read_safetensors(last_model(doubled));
  CHECK(b.at("synthesis.L0_20_8.weight").bytes == a.at("synthesis.L0_20_8.weight").bytes);
  CHECK(b.at("synthesis.L1_36_8.weight").bytes == a.at("synthesis.L1_20_8.weight").bytes);
  CHECK(b.at("synthesis.L1_36_8.down_filter").bytes != a.at("synthesis.L1_20_8.down_filter").bytes);
  CHECK(b.at("mapping.fc0.weight").bytes == a.at("mapping.fc0.weight").bytes);
  const fs::path wider = train(
      folder, "wider", kStyleGan3 + "--kimg 0 --set stylegan3.channel_max=12 --init-from source");
  CHECK_THAT(read_file(wider / "log.txt"), Catch::Contains("stylegan3.channel_max=8"));
}

TEST_CASE("PicturesAreTurnedAndMoved") {
  const TemporaryFolder folder;
  trained(folder, "run", kStyleGan3 + "--kimg 0");
  const std::string draw = "generate run --seeds 3 --device cpu --format npy --outdir ";
  for (const std::string more : {"plain", "turned --rotate 90", "moved --translate 0.25,0"})
    REQUIRE(run_in(folder, draw + more).code == 0);
  const auto picture = [&](const std::string& name) {
    return read_file(folder / name / "seed0003.npy");
  };
  CHECK(picture("turned") != picture("plain"));
  CHECK(picture("moved") != picture("plain"));
  CHECK(run_in(folder,
               "interpolate run --rotate 360 --loop --frames 2 --seeds 0-1 --device cpu -o w.webp")
            .code == 0);
  // A way of transforms passes each of them: its frames 0, 2 and 4 are pictures that generate
  // draws.
  REQUIRE(
      run_in(folder,
             "interpolate run --rotate 0:90:0 --translate 0,0:0:0,0:0.25,0 --frames 4 --seeds 3,3 "
             "--device cpu --outdir wrong")
          .code == 2);
  REQUIRE(
      run_in(folder,
             "interpolate run --rotate 0:90:0 --translate 0,0:0,0:0.25,0 --frames 4 --seeds 3,3 "
             "--device cpu --outdir way")
          .code == 0);
  for (const auto& [name, frame] : std::map<std::string, std::string>{
           {"plain", "0"}, {"turned --rotate 90", "2"}, {"moved --translate 0.25,0", "4"}}) {
    CAPTURE(name);
    const std::string where = "png-" + name;
    REQUIRE(run_in(folder, "generate run --seeds 3 --device cpu --outdir " + where).code == 0);
    CHECK(read_file(folder / ("png-" + name.substr(0, name.find(' '))) / "seed0003.png") ==
          read_file(folder / "way" / ("frame000" + frame + ".png")));
  }
  const Outcome refused = run_in(folder, draw + "x --translate 1");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains("--translate 1"));
  trained(folder, "dcgan", "--kimg 0");
  const Outcome other =
      run_in(folder, "generate dcgan --seeds 3 --device cpu --outdir y --rotate 9");
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("--rotate 9"));
}

TEST_CASE("EquivarianceIsMeasuredOfModelsThatHaveIt") {
  const TemporaryFolder folder;
  trained(folder, "run", kStyleGan3 + "--kimg 0");
  const Outcome done =
      run_in(folder, "metrics run --metrics eqt,eqt_frac,eqr --num-images 8 --device cpu --json");
  INFO(done.err);
  REQUIRE(done.code == 0);
  double eqt = 0;
  for (const std::string& line : split(trim(done.out), '\n')) {
    const Json row = Json::parse(line);
    if (row["metric"] == "eqt") eqt = row["results"]["eqt"].get<double>();
  }
  CHECK(eqt > 20);  // dB, of a network that has not been trained
  trained(folder, "dcgan", "--kimg 0");
  const Outcome refused = run_in(folder, "metrics dcgan --metrics eqt --device cpu");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains("eqt"));
}

}  // namespace
}  // namespace gantrain
