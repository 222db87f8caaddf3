// SPDX-License-Identifier: Apache-2.0
// What the user can get wrong: one line that names the thing and the way out, the right exit code,
// soon.
#include <sys/stat.h>
#include <unistd.h>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

struct Wrong {
  std::string arguments;  // behind those of tiny()
  int code;
  Words named;  // what the line must hold
};

void check_refused(const Words& arguments,
                   int code,
                   const Words& named,
                   const TemporaryFolder& folder) {
  const Outcome outcome = gantrain(arguments, {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == code);
  CHECK(is_one_error_line(outcome.err));
  CHECK(outcome.out.empty());
  CHECK(outcome.seconds < 60);
  for (const std::string& name : named) {
    CAPTURE(name);
    CHECK(outcome.err.find(name) != std::string::npos);
  }
  CHECK(outcome.left.empty());
}

void check_all(const std::vector<Wrong>& table, const TemporaryFolder& folder) {
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.arguments);
    check_refused(tiny(wrong.arguments), wrong.code, wrong.named, folder);
  }
}

TEST_CASE("WrongWordsAreNamedWithTheNearestOnes") {
  const TemporaryFolder folder;
  check_refused(
      words_of("--preset dcgan-tinny"), 2, {"dcgan-tinny", "did you mean dcgan-tiny"}, folder);
  check_all({{"--set train.bach=3", 2, {"train.bach", "train.batch"}},
             {"--kimgs 3", 2, {"--kimgs", "--kimg"}},
             {"--ddp-mode flap", 2, {"flap", "wrapper|dynamic|flat"}},
             {"--metrics swdd", 2, {"swdd", "swd, msssim"}},
             {"extra", 2, {"extra"}}},
            folder);
  check_refused({"generat"}, 2, {"generat", "generate"}, folder);
  check_refused(words_of("presets show dcgann"), 2, {"dcgann", "dcgan"}, folder);
}

TEST_CASE("WrongValuesAreNamedWithTheAllowedOnes") {
  const TemporaryFolder folder;
  check_all({{"--nproc 0", 2, {"launch.nproc = 0", "at least 1"}},
             {"--nproc 0:2", 2, {"launch.nproc_min = 0 (flag --nproc)", "at least 1"}},
             {"--nproc a:2", 2, {"--nproc a:2: MIN:MAX are two numbers"}},
             {"--preset stylegan2-tiny --set ada.pipe=foo", 2, {"ada.pipe = foo: there are blit"}},
             {"--set G.adam.lr=abc", 2, {"G.adam.lr = abc", "number"}},
             {"--set G.adam.lr=-1", 2, {"G.adam.lr = -1", "0 to"}},
             {"--set G.adam.beta1=1.5", 2, {"G.adam.beta1 = 1.5"}},
             {R"(--set G.adam.lr={"from":1})",
              2,
              {"G.adam.lr = {", R"("shape": "linear"|"cosine"|"step"})"}},
             {R"(--set G.adam.beta2={"from":0.9,"to":1.5,"kimg":1})", 2, {"G.adam.beta2 = {"}},
             {"--set train.batch=1.5", 2, {"train.batch = 1.5", "integer"}},
             {"--set foo", 2, {"--set foo", "key=value"}},
             {"--resolution 17", 2, {"data.resolution = 17", "16"}},
             {"--set G.accumulate=3", 2, {"G.accumulate = 3"}},
             {"--nproc 2 --micro-batch 3", 2, {"train.micro_batch = 3"}},
             {"--kimg soon", 2, {"train.kimg = soon"}},
             {"--loss-scale 512", 2, {"--loss-scale 512", "--amp=fp16"}},
             {"--amp=bf16 --loss-scale 512", 2, {"--loss-scale 512", "--amp=fp16"}},
             {"--node-rank 1", 2, {"--node-rank 1"}}},
            folder);
  check_refused({"--preset", ""}, 2, {"--preset needs a name", "presets list"}, folder);
}

TEST_CASE("AConfigFileThatCannotBeUsedIsNamed") {
  const TemporaryFolder folder;
  write_file(folder / "broken.json", "{broken");
  write_file(folder / "list.json", "[1]");
  write_file(folder / "type.json", R"({"train": {"batch": "x"}})");
  write_file(folder / "key.json", R"({"train": {"bach": 3}})");
  write_file(folder / "section.json", R"({"train": 3})");
  write_file(folder / "twice.json", R"({"train": {"batch": 8, "batch": 16}})");
  check_all({{"--config broken.json", 2, {"broken.json", "line 1"}},
             {"--config list.json", 2, {"list.json", "object"}},
             {"--config type.json", 2, {"type.json", "train.batch"}},
             {"--config key.json", 2, {"key.json", "train.bach", "train.batch"}},
             {"--config twice.json", 2, {"twice.json", "batch is there twice"}},
             {"--config section.json", 2, {"train = 3 (file section.json): an object is expected"}},
             {"--config none.json", 2, {"none.json"}}},
            folder);
}

TEST_CASE("APlanIsRefusedForWhatIsNotThere") {
  const TemporaryFolder folder;
  write_file(folder / "m.safetensors", "");
  fs::create_directory(folder / "broken");
  write_file(folder / "broken/a.png", "\x89PNG\r\n\x1a\n");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  check_all({{"--dry-run --data nowhere", 3, {"nowhere: no such file or folder"}},
             {"--dry-run=full --data nowhere", 3, {"nowhere: no such file or folder"}},
             {"--dry-run --data synth:nothing", 3, {"no such built-in data"}},
             {"--dry-run --data broken", 3, {"broken: 1 picture", "data inspect broken"}},
             {"--config pipe", 2, {"pipe: a FIFO to which nobody writes"}},
             {"--dry-run --resume nowhere", 3, {"nowhere: no such state", "--init-from"}},
             {"--dry-run --resume m.safetensors", 3, {"holds weights", "--init-from"}},
             {"--dry-run --resume " + std::string(5000, 'x'), 3, {"no such state"}},
             {"--dry-run --init-from nowhere", 3, {"nowhere: no such model"}},
             {"--resume m.safetensors --init-from m.safetensors", 2, {"leave one out"}}},
            folder);
}

TEST_CASE("ARunIsKeptOutOfItsData") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "data/deep");
  write_file(folder / "data/a.png", encode_png(test_picture(16, 16, 3)));
  fs::create_directory_symlink(folder / "data", folder / "link");
  check_all({{"--data data --run-dir data", 2, {"--run-dir data", "into the data folder data"}},
             {"--data data --run-dir ./link/", 2, {"into the data folder data"}},
             {"--data data --run-dir data/run", 2, {"below the data folder data"}},
             {"--data data --out data/deep", 2, {"--out data/deep", "below the data folder data"}},
             {"--dry-run --data . ", 2, {"--out runs", "below the data folder ."}}},
            folder);
  CHECK_FALSE(fs::exists(folder / "data/run"));
}

TEST_CASE("AugmentationOfAFixedStrengthNeedsTheStrength") {
  const TemporaryFolder folder;
  check_all({{"--preset stylegan2 --batch 64 --aug fixed", 2, {"ada.mode = fixed", "--p 0.2"}},
             {"--preset stylegan3-t --batch 32 --aug=fixed", 2, {"ada.mode = fixed", "--p 0.2"}}},
            folder);
  for (const char* fine : {"--aug fixed --p 0.3", "--aug fixed --p 0", "--aug ada", "--aug noaug"})
    CHECK(succeed(folder, std::string("--preset stylegan2 --device cpu --dry-run ") + fine)
              .err.find("warning") == std::string::npos);
  const Outcome idle = succeed(folder, "--preset stylegan2 --device cpu --dry-run --p 0.3");
  CHECK(idle.err.find("ada.p = 0.3 does nothing with ada.mode=none") != std::string::npos);
}

TEST_CASE("ADryRunTellsOfWhatTheRunRefusesAndRefusesNoMore") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0.032");
  const std::string plan = "--preset dcgan-tiny --device cpu --dry-run ";
  const Outcome frozen =
      succeed(folder, "--preset stylegan2-tiny --device cpu --dry-run --set freeze_d=2");
  CHECK(holds(frozen.out + frozen.err, "stylegan2.freeze_d: without --init-from"));
  CHECK(run_in(folder, plan + "--init-from gone").code == 3);
  // It has a state, and begins at no other weights.
  succeed(folder, plan + "--init-from gone --resolution 16 --run-dir run");
}

TEST_CASE("AValueOfAnOptimizerThatIsNotTheChosenOneIsTold") {
  const TemporaryFolder folder;
  const std::string plan = "--preset dcgan-tiny --device cpu --dry-run --set G.adam.lr=1e-4";
  CHECK(succeed(folder, plan).err.find("warning") == std::string::npos);
  CHECK_THAT(succeed(folder, plan + " --set G.optimizer=sgd").err,
             Catch::Contains("G.adam.lr (flag --set) does nothing: G.optimizer is sgd"));
  // A run's file has the values of all optimizers.
  trained(folder, "run", "--kimg 0");
  CHECK(
      succeed(folder, "--config run/config.json --device cpu --dry-run").err.find("does nothing") ==
      std::string::npos);
}

TEST_CASE("TheConfigurationOfARunDoesNotLeadIntoThatRun") {
  const TemporaryFolder folder;
  trained(folder, "run", "--kimg 0.032");
  const std::string plan = "--config run/config.json --device cpu --dry-run -v ";
  const auto value_of = [](const Outcome& outcome, const std::string& key) {
    const size_t at = outcome.out.find("\n" + key + " ");
    return at == std::string::npos ? "" : outcome.out.substr(at + 1 + 31, 16);
  };
  const Outcome fresh = succeed(folder, plan);
  CHECK(trim(value_of(fresh, "run.run_dir")).empty());
  CHECK(fresh.err.find("run/config.json is of the run in run; this is a new run: --run-dir run") !=
        std::string::npos);
  const Outcome resumed = succeed(folder, plan + "--run-dir run");
  CHECK(trim(value_of(resumed, "run.run_dir")) == "run");
  CHECK(resumed.err.find("is of the run") == std::string::npos);
}

TEST_CASE("AConfigurationInAnotherLanguageIsNamedWithTheWay") {
  const TemporaryFolder folder;
  write_file(folder / "run.yaml", "# mine\ntrain:\n  batch: 8\n");
  write_file(folder / "mine.txt", "train.batch: 8\n");
  write_file(folder / "mmagic.py", "_base_ = ['../_base_/gen_default_runtime.py']\n");
  write_file(folder / "picture.json", encode_png(test_picture(4, 4, 3)));
  check_all({{"--config run.yaml", 2, {"YAML", "yaml.safe_load", "< run.yaml > run.json"}},
             {"--config mine.txt", 2, {"YAML"}},
             {"--config mmagic.py", 2, {"Python", "presets show stylegan2 > own.json"}},
             {"--config picture.json", 2, {"a PNG picture"}}},
            folder);
}

TEST_CASE("WhatIsNoModelIsNamedAtOnce") {
  const TemporaryFolder folder;
  write_file(folder / "a.png", encode_png(test_picture(20, 20, 3)));
  write_file(folder / "page.safetensors", "<!DOCTYPE html><title>404</title>");
  write_file(folder / "cut.safetensors", std::string("\x40\0\0\0\0\0\0\0{}", 10));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const Wrong& wrong : std::vector<Wrong>{
           {"a.png", 3, {"a.png", "but a PNG picture"}},
           {"page.safetensors", 3, {"a web page (HTML)"}},
           {"cut.safetensors", 3, {"truncated", "64 bytes"}},
           {"pipe", 3, {"pipe: a pipe or a device"}},
           {"https://host/net.pkl", 2, {"download it first: curl -fL -o net.pkl"}}}) {
    CAPTURE(wrong.arguments);
    check_refused(
        {"generate", "--model", wrong.arguments, "-o", "g.png"}, wrong.code, wrong.named, folder);
  }
  check_refused(
      words_of("import https://host/net.pkl -o m.safetensors"), 2, {"download it first"}, folder);
  check_refused(words_of("generate --model m --seeds 0-99999999 -o g.png"),
                2,
                {"0-99999999 is a range of 100000000 numbers", "at most 1000001"},
                folder);
}

TEST_CASE("WordsThatAreNotUtf8AreRefusedByName") {
  const TemporaryFolder folder;
  check_refused({"--data", "Caf\xe9"}, 2, {"Caf\uFFFD", "not UTF-8"}, folder);
  check_refused({"generate", "--model", "m", "-o", "\xff.png"}, 2, {"not UTF-8"}, folder);
  const Outcome outcome = gantrain(
      tiny("--dry-run"), {.environment = {{"GANTRAIN_RUN__OUT", "\xe9"}}, .folder = folder.path()});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("environment GANTRAIN_RUN__OUT") != std::string::npos);
}

TEST_CASE("AnEnvironmentVariableThatIsWrongIsNamed") {
  const TemporaryFolder folder;
  for (const std::string name : {"GANTRAIN_TRAIN__BATHC", "GANTRAIN_TRAIN__BATCH"}) {
    const Outcome outcome =
        gantrain(tiny("--dry-run"), {.environment = {{name, "x"}}, .folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find(name) != std::string::npos);
  }
}

TEST_CASE("AnEnvironmentVariableWithOneUnderscoreIsWarnedOf") {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& name) {
    const Outcome outcome =
        gantrain(tiny("--dry-run"), {.environment = {{name, "8"}}, .folder = folder.path()});
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  CHECK(said("GANTRAIN_TRAIN_BATCH").find("did you mean GANTRAIN_TRAIN__BATCH") !=
        std::string::npos);
  CHECK(said("GANTRAIN_G_ADAM_LR").find("did you mean GANTRAIN_G__ADAM__LR") != std::string::npos);
  for (const std::string name : {"GANTRAIN_SOMETHING", "GANTRAIN_TRAIN__BATCH"})
    CHECK(said(name).find("did you mean") == std::string::npos);
}

TEST_CASE("WhatIsNoFileOfFeaturesIsNamed") {
  const TemporaryFolder folder;
  check_refused(words_of("features ."), 3, {".: a folder; a file of weights"}, folder);
}

TEST_CASE("DevicesThatAreNotThereAreRefused") {
  const TemporaryFolder folder;
  check_all({{"--backend nccl", 4, {"nccl", "gloo"}}}, folder);
  const Outcome outcome =
      gantrain(tiny("--device cuda --nproc 2"),
               {.environment = {{"CUDA_VISIBLE_DEVICES", ""}}, .folder = folder.path()});
  CHECK(outcome.code == 4);
  CHECK(is_one_error_line(outcome.err));
  CHECK(outcome.err.find("--device cpu") != std::string::npos);
}

TEST_CASE("DataThatCannotBeReadIsRefusedBeforeARunIsBegun") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "empty");
  write_file(folder / "text.txt", "no pictures\n");
  write_file(folder / "half.zip", std::string("PK\3\4") + std::string(500, 'x'));
  std::filesystem::create_directory(folder / "bad");
  const std::string png = encode_png(test_picture(20, 20, 3));
  for (int i = 0; i < 300; ++i) write_file(folder / ("bad/" + std::to_string(i) + ".png"), png);
  write_file(folder / "bad/100.jpg", std::string("\xff\xd8\xff\xe0") + std::string(500, 'x'));
  check_all({{"--run-dir r --data none", 3, {"none", "--data"}},
             {"--run-dir r --data empty", 3, {"empty", ".png"}},
             {"--run-dir r --data text.txt", 3, {"text.txt", "zip"}},
             {"--run-dir r --data half.zip", 3, {"half.zip", "zip"}},
             {"--run-dir r --data bad", 3, {"100.jpg", "data.on_bad=skip"}},
             {"--run-dir r --data bad --nproc 2", 3, {"100.jpg", "data.on_bad=skip"}}},
            folder);
  CHECK_FALSE(fs::exists(folder / "r"));
}

TEST_CASE("ARunFolderThatCannotBeWrittenIsNamed") {
  const TemporaryFolder folder;
  write_file(folder / "file", "");
  check_all({{"--run-dir file/x", 8, {"file/x"}},
             {"--out file/x", 8, {"file/x"}},
             {"--run-dir file", 8, {"file"}},
             {"--run-dir /proc/x", 8, {"/proc/x"}}},
            folder);
}

TEST_CASE("AStateThatIsNotThereIsNamed") {
  const TemporaryFolder folder;
  write_file(folder / "text.pt", "no state");
  std::filesystem::create_directory(folder / "empty");
  check_all({{"--resume none.pt", 3, {"none.pt"}},
             {"--resume text.pt", 3, {"text.pt"}},
             {"--resume empty", 3, {"empty"}}},
            folder);
}

TEST_CASE("APortInUseIsNamedWithItsOwner") {
  const TemporaryFolder folder;
  const TakenPort listener;
  const std::string port = std::to_string(listener.port());
  check_all(
      {{"--nproc 2 --master-port " + port, 4, {port, "--master-port", std::to_string(getpid())}}},
      folder);
}

}  // namespace
}  // namespace gantrain
