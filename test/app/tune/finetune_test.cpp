// SPDX-License-Identifier: Apache-2.0
// Finetuning of tiny models: what is chosen, that it goes back and ends, and that it goes on where
// it was killed.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/value.h"
#include "support/catch.h"
#include "support/official_writer.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

const std::string kHere = " --device cpu --nproc 1 --threads 1 --set metrics.images=16 ";

void write_photos(const TemporaryFolder& folder, int count) {
  fs::create_directory(folder / "photos");
  for (int i = 0; i < count; ++i) {
    const std::string name = "photos/" + std::to_string(i) + ".png";
    write_file(folder / name, encode_png(test_picture(16 + i % 3, 20, 3)));
  }
}

void train_style_model(const TemporaryFolder& folder, const std::string& more = "") {
  succeed(folder,
          "--preset stylegan2-tiny --run-dir base --resolution 16 --batch 8 --kimg 0.032 --metrics "
          "none --set channel_base=128 --set channel_max=16" +
              kHere + more);
}

Json finetune_json(const TemporaryFolder& folder) {
  return Json::parse(read_file(folder / "tuned/finetune.json"));
}

std::string setting(const fs::path& run, const std::string& key) {
  const Json json = Json::parse(read_file(run / "config.json"));
  return text_of(json.at("values").at(key).at("value"));
}

TEST_CASE("FinetuningTakesTheModelsShapeAndChoosesByTheNumberOfPictures") {
  const TemporaryFolder folder;
  train_style_model(folder);
  write_photos(folder, 24);
  const std::string command = "finetune photos --from base -o tuned -- --kimg 0.064" + kHere;
  const Outcome plan =
      succeed(folder, "finetune photos --from base --dry-run -- --kimg 0.064" + kHere);
  CHECK_THAT(plan.out,
             Catch::Contains("24 pictures") && Catch::Contains("chosen  stylegan2.freeze_d 0: ") &&
                 Catch::Contains("chosen  ada.p 0: ") && Catch::Contains("arXiv:2006.06676") &&
                 Catch::Contains("given   train.kimg 0.064, not "));
  CHECK(!fs::exists(folder / "runs"));
  const Outcome outcome = succeed(folder, command);
  const fs::path run = folder / "tuned/run";
  CHECK(outcome.out == "tuned/run\n");
  CHECK(setting(run, "stylegan2.channel_max") == "16");
  CHECK(setting(run, "data.mirror") == "false");
  CHECK(setting(run, "data.resolution") == "16");
  CHECK(setting(run, "save.keep_best") == "swd");
  CHECK(fs::exists(run / "model-best.safetensors"));
  CHECK(holds(text_in(run / "STATUS"), "done 0.064 kimg"));
  CHECK(holds(text_in(run / "log.txt"), " 0 re-initialised"));
  CHECK(holds(outcome.err, "generate --model tuned/best.safetensors"));
  // So short a run has too few snapshots for some lengths, which the user has not chosen.
  CHECK(!holds(outcome.err, "of its profile wrong"));
  // Averages of other lengths have competed with the best model; the best of all is kept.
  const Json compared = Json::parse(read_file(folder / "tuned/averages/averages.json"));
  std::set<double> ends;
  double least = compared.at("models").front().at("value");
  for (const Json& one : compared.at("models")) {
    least = std::min(least, one.at("value").get<double>());
    if (!one.at("length").is_null()) ends.insert(one.at("kimg").get<double>());
    CHECK(fs::exists(folder / text_of(one.at("file"))) == one.at("length").is_null());
  }
  CHECK(compared.at("models").size() == 5 * ends.size() + 1);
  for (const Json& one : compared.at("models"))
    CHECK((one.at("file") == compared.at("best")) == (one.at("value") == least));
  succeed(folder, "generate --device cpu tuned/best.safetensors --seeds 0-3 -o best.png");
  CHECK(finetune_json(folder).at("returns").empty());
  // The same command again has nothing to do.
  const std::string sha = model_sha(run);
  CHECK(succeed(folder, command).out == outcome.out);
  CHECK(model_sha(run) == sha);
  // One of an earlier program has not chosen yet.
  fs::remove(folder / "tuned/best.safetensors");
  succeed(folder, command);
  CHECK(fs::exists(folder / "tuned/best.safetensors"));
  // What another one has left behind is not this one's result.
  fs::remove_all(run);
  write_file(folder / "tuned/best.safetensors", "old");
  succeed(folder, command + " --set ema.posthoc=off");
  CHECK(read_file(folder / "tuned/best.safetensors") == read_file(run / "model-best.safetensors"));
  CHECK(!fs::exists(folder / "tuned/averages"));
}

// Also of a model file alone, with stacks of five channels; pictures of three do not fit it.
TEST_CASE("FinetuningKeepsBitsAndChannelsOfTheModel") {
  const TemporaryFolder folder;
  trained(folder, "base", "--kimg 0.016 --set data.channels=5 --set data.depth=16");
  fs::copy_file(last_model(folder / "base"), folder / "bare.safetensors");
  succeed(folder, "generate --device cpu base --seeds 0-23 --format stack --outdir stacks");
  for (const std::string from : {"base", "bare.safetensors"}) {
    CAPTURE(from);
    const std::string tuned = "tuned-" + from;
    succeed(folder, "finetune stacks --from " + from + " -o " + tuned + " -- --kimg 0.016" + kHere);
    const fs::path run = folder / tuned / "run";
    CHECK(setting(run, "data.depth") == "16");
    CHECK(setting(run, "data.channels") == "5");
    CHECK(holds(text_in(run / "log.txt"), ", 16 bits"));
    CHECK(holds(read_file(last_model(run)).substr(0, 20000), "gantrain.depth"));
  }
  write_photos(folder, 24);
  const Outcome other =
      run_in(folder, "finetune photos --from base -o other -- --kimg 0.016" + kHere);
  CHECK(other.code == 3);
  CHECK(holds(other.err, "photos/0.png: 3 channels; 5 are needed"));
}

// Of a model file alone, its header says what the networks are, with numbers by stage.
TEST_CASE("FinetuningTakesTheWidthsOfABareModelFile") {
  const TemporaryFolder folder;
  succeed(
      folder,
      "--preset r3gan-tiny --run-dir base --resolution 16 --batch 8 --kimg 0.016 --metrics none "
      "--save-raw --set r3gan.width=8:16,24 --set r3gan.cardinality=8:2,3" +
          kHere);
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(folder / "base")) {
    const fs::path path = entry.path();
    if (path.extension() == ".safetensors") newest = std::max(newest, path);
  }
  fs::copy_file(newest, folder / "bare.safetensors");
  write_photos(folder, 24);
  const std::string command = "finetune photos --from bare.safetensors -o tuned";
  CHECK_THAT(succeed(folder, command + " --dry-run -- --kimg 0.016" + kHere).out,
             Catch::Contains("r3gan.width=8:16,24") && Catch::Contains("r3gan.cardinality=8:2,3") &&
                 Catch::Contains("r3gan.blocks=1") && Catch::Contains("r3gan.z_dim=32"));
  succeed(folder, command + " -- --kimg 0.016" + kHere);
  CHECK(holds(text_in(folder / "tuned/run/log.txt"), " 0 re-initialised"));
}

// Pictures of 32 pixels in `folder`/pictures, by classes where there are some.
void write_large_photos(const TemporaryFolder& folder, int classes) {
  for (int i = 0; i < 24; ++i) {
    const std::string label = classes > 0 ? std::to_string(i % classes) + "/" : "";
    fs::create_directories(folder / ("pictures/" + label));
    write_file(folder / ("pictures/" + label + std::to_string(i) + ".png"),
               encode_png(test_picture(32 + i % 3, 32, 3)));
  }
}

// In StyleGAN3-R G has twice the feature maps that the keys say; the second one's D has others than
// its G.
TEST_CASE("FinetuningTakesAllWidthsOfOfficialNetworks") {
  for (const auto& [set, options, classes] : std::vector<std::tuple<std::string, std::string, int>>{
           {"sg3_r32", "repository=stylegan3", 0},
           {"sg3_t16_c3", "repository=stylegan3", 3},
           {"r3gan_uncond32", "structure=r3gan", 0}}) {
    CAPTURE(set);
    const TemporaryFolder folder;
    if (!write_official_pickle(folder / "net.pkl", set, options)) return;
    write_large_photos(folder, classes);
    succeed(folder, "finetune pictures --from net.pkl -o tuned -- --batch 8 --kimg 0.008" + kHere);
    CHECK(holds(text_in(folder / "tuned/run/log.txt"), " 0 re-initialised"));
  }
}

TEST_CASE("AnotherPickleIsNotTheOneThatWasImportedBefore") {
  const TemporaryFolder folder;
  write_large_photos(folder, 0);
  for (const auto& [set, options, said] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"uncond", "", "StyleGAN2 of 32 pixels"},
           {"r3gan_uncond32", "structure=r3gan", "R3GAN of 32 pixels"}}) {
    if (!write_official_pickle(folder / "net.pkl", set, options)) return;
    const Outcome plan =
        succeed(folder, "finetune pictures --from net.pkl -o deep/down/here --dry-run --" + kHere);
    CHECK_THAT(plan.out,
               Catch::Contains(said) && Catch::Contains("import  gantrain import net.pkl"));
    CHECK(!fs::exists(folder / "deep"));
  }
  CHECK(run_in(folder, "finetune pictures --from net.pkl -o deep/down/here -- --kimgs 3" + kHere)
            .code == 2);
  CHECK(!fs::exists(folder / "deep"));
}

TEST_CASE("AFinetuningThatWasRefusedLeavesItsFolderToTheNextCommand") {
  const TemporaryFolder folder;
  train(folder, "base", "--kimg 0.016");
  write_photos(folder, 24);
  const std::string end = " --from base -o tuned -- --kimg 0.016" + kHere;
  check_refusals(
      folder,
      {{"finetune photos --by fd_lite0" + end, 2, "EfficientNet-Lite0"},
       {"finetune photos --gamma auto" + end, 2, "recipe dcgan has none"},
       {"finetune photos --from base -o photos -- --kimg 0.016" + kHere, 2, "data folder"},
       {"finetune photos" + end + " --set run.run_dir=here", 2, "run.run_dir behind finetune"},
       {"finetune photos" + end + " --set run.resume=none", 2, "run.resume behind finetune"},
       {"finetune photos" + end + " --set run.init_from=here", 2, "run.init_from behind finetune"},
       {"finetune photos" + end + " --set data.path=here", 2, "data.path behind finetune"}});
  CHECK(!fs::exists(folder / "tuned"));
  CHECK(!fs::exists(folder / "photos/finetune.json"));
  // What only the training itself finds is known when the folder is there.
  write_file(folder / "bad.pth", "no weights");
  CHECK(run_in(folder, "finetune photos" + end + " --metrics fd_lite0 --lite0 bad.pth").code == 3);
  CHECK(fs::exists(folder / "tuned/finetune.json"));
  succeed(folder, "finetune photos" + end + " --metrics none --keep-best msssim");
  CHECK(fs::exists(folder / "tuned/run/metric-swd.jsonl"));
}

TEST_CASE("PicturesWithoutLabelsAreRefusedForAConditionalModelBeforeAnythingIsMade") {
  const TemporaryFolder folder;
  train_style_model(folder, "--cond on");
  write_photos(folder, 24);
  const std::string finetune = "finetune photos --from base -o tuned";
  for (const std::string& command :
       {"train --preset stylegan2-tiny --init-from base --data photos --cond on" + kHere,
        "train --preset stylegan2-tiny --data photos --cond on --dry-run" + kHere,
        finetune + " --" + kHere,
        finetune + " --dry-run --" + kHere}) {
    const Outcome refused = run_in(folder, command);
    CAPTURE(command);
    CHECK(refused.code == 3);
    CHECK_THAT(refused.err,
               Catch::Contains("error   --cond on: photos has no labels (sub-folders that hold all "
                               "pictures, dataset.json or a CSV name them); --cond off trains "
                               "without\n"));
    CHECK(!fs::exists(folder / "tuned"));
  }
  succeed(folder, finetune + " -- --help");
}

TEST_CASE("FinetuningGoesBackWithHalfTheRatesTwiceAndThenEnds") {
  const TemporaryFolder folder;
  train(folder, "base", "--kimg 4");
  write_photos(folder, 24);
  // Rates at which networks are destroyed, however often they are halved. That takes 8 kimg each
  // time (CourseLimits), with ten measurements.
  const Outcome outcome = succeed(
      folder,
      "finetune photos --from base -o tuned -- --kimg 400 --batch 64 --set metrics.every=0.8 "
      "--set save.every=0.8 --set train.tick=0.8 --set G.lr=1 --set D.lr=1 --set "
      "metrics.stop_on=off" +
          kHere);
  INFO(outcome.err);
  const Json json = finetune_json(folder);
  const Json& returns = json.at("returns");
  CHECK(returns.size() <= 2);
  REQUIRE(!returns.empty());
  CHECK(returns[0].at("rates")[0] == "G.adam.lr=0.5");
  if (returns.size() == 2) CHECK(returns[1].at("rates")[0] == "G.adam.lr=0.25");
  CHECK(!json.at("ended").get<std::string>().empty());
  const fs::path run = folder / "tuned/run";
  CHECK(holds(text_in(run / "STATUS"), "done "));
  CHECK(holds(text_in(run / "log.txt"), "finetune: back to "));
  CHECK(holds(text_in(run / "report.html"), "finetune: back to "));
}

TEST_CASE("FinetuningThatWasKilledGoesOnAsItWasDecided") {
  const TemporaryFolder folder;
  train(folder, "base", "--kimg 0.064");
  write_photos(folder, 24);
  const std::string command = "finetune photos --from base -o tuned -- --kimg 1 --set " +
                              ("save.every=0.064 --set train.tick=0.016" + kHere);
  {
    Command killed(words_of(command), {.folder = folder.path()});
    REQUIRE(killed.wait_for("speed  "));
    killed.signal(SIGKILL);
    const Outcome outcome = killed.wait();
    CHECK(outcome.code == 128 + SIGKILL);
    CHECK(outcome.left.empty());
  }
  const Json before = finetune_json(folder);
  write_photos(folder, 24);
  succeed(folder, command);
  CHECK(finetune_json(folder).at("words") == before.at("words"));
  CHECK(holds(text_in(folder / "tuned/run/STATUS"), "done "));
  // The program may be called by another path.
  Json moved = finetune_json(folder);
  const std::string typed = moved.at("command");
  moved["command"] = "'/another path/gantrain'" + typed.substr(typed.find(" finetune "));
  write_file(folder / "tuned/finetune.json", moved.dump());
  succeed(folder, command);
  const Outcome other = run_in(folder, "finetune photos --from base -o tuned -- --kimg 2" + kHere);
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Catch::Contains("holds another finetuning"));
}

TEST_CASE("GammaAutoIsARaceWhoseWinnerIsFinetunedOn") {
  const TemporaryFolder folder;
  train_style_model(folder);
  write_photos(folder, 24);
  const Outcome outcome =
      succeed(folder, "finetune photos --from base --gamma auto -o tuned -- --kimg 0.24" + kHere);
  const Json race = Json::parse(read_file(folder / "tuned/tune.json"));
  CHECK(race.at("candidates").size() == 3);
  int racing = 0;
  for (const Json& one : race.at("candidates")) racing += one.at("place") == "racing" ? 1 : 0;
  CHECK(racing == 1);
  const fs::path run = folder / finetune_json(folder).at("run").get<std::string>();
  CHECK(holds(text_in(run / "STATUS"), "done "));
  CHECK(fs::exists(folder / "tuned/compare.html"));
  CHECK(holds(outcome.out, run.filename().string()));
}

TEST_CASE("WhatCannotBeFinetunedIsRefused") {
  const TemporaryFolder folder;
  write_photos(folder, 3);
  fs::create_directory(folder / "none");
  fs::create_directory(folder / "one");
  fs::create_directory(folder / "small");
  write_file(folder / "one/0.png", encode_png(test_picture(16, 16, 3)));
  for (const char* name : {"small/0.png", "small/1.png"})
    write_file(folder / name, encode_png(test_picture(8, 8, 3)));
  train(folder, "base", "--kimg 0.016");
  write_file(folder / "odd.safetensors", "no header");
  fs::create_directory(folder / "cut");
  fs::copy_file(folder / "base/config.json", folder / "cut/config.json");
  write_file(folder / "cut/model-000001.safetensors", "");
  write_file(folder / "odd.pkl", "no pickle");
  const std::string state = files_like(folder / "base", "state-").back().filename();
  const std::vector<std::tuple<std::string, int, std::string>> wrong = {
      {"finetune --from base", 2, "on which pictures?"},
      {"finetune photos", 2, "from which model?"},
      {"finetune photos --from missing", 3, "missing"},
      {"finetune photos --from odd.safetensors", 3, "odd.safetensors"},
      {"finetune photos --from odd.pkl -o here", 3, "odd.pkl"},
      {"finetune photos --from cut", 3, "cut/model-000001.safetensors: 0 bytes"},
      {"finetune photos --from base/" + state,
       3,
       "a state, whose networks its run folder tells of"},
      {"finetune photos --from base -- --dry-run",
       2,
       "--dry-run behind finetune: put it before --"},
      {"finetune none --from base", 3, "none"},
      {"finetune one --from base", 3, "one: 1 picture; finetuning takes some tens at least"},
      {"finetune small --from base",
       3,
       "small: smaller than the model: data.resolution = 16: 2 of"},
      {"finetune photos --from base --by swdd", 2, "did you mean swd"},
      {"finetune photos --from base -- --run-dir here", 2, "--run-dir"},
      {"finetune photos --from base -- --kimgs 3", 2, "--kimg"}};
  for (const auto& [command, code, part] : wrong) {
    const Outcome outcome = run_in(folder, command);
    CAPTURE(command, outcome.err);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, Catch::Contains(part));
    CHECK(!fs::exists(folder / "runs"));
    CHECK(!fs::exists(folder / "here"));
  }
}

}  // namespace
}  // namespace gantrain
