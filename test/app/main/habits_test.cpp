// SPDX-License-Identifier: Apache-2.0
// What people's fingers know from other trainers, and configuration files that extend others.
#include <algorithm>

#include "command/flags.h"
#include "config/config.h"
#include "config/value.h"
#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

Outcome dry_run(const std::string& flags, const std::filesystem::path& folder) {
  return gantrain(words_of("--device cpu --dry-run --json " + flags), {.folder = folder});
}

Json values(const std::string& flags, const std::filesystem::path& folder) {
  const Outcome outcome = dry_run(flags, folder);
  INFO(flags << '\n' << outcome.err);
  REQUIRE(outcome.code == 0);
  return Json::parse(outcome.out).at("values");
}

std::string value_of(const Json& values, const std::string& key) {
  const Json& value = values.at(key).at("value");
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string refusal(const std::string& flags, const std::filesystem::path& folder) {
  const Outcome outcome = dry_run(flags, folder);
  INFO(flags << '\n' << outcome.err);
  CHECK(outcome.code == 2);
  CHECK(is_one_error_line(outcome.err));
  CHECK(outcome.out.empty());
  return outcome.err;
}

// What is typed, the key that it sets, and its value.
struct Works {
  const char* typed;
  const char* key;
  const char* value;
};

constexpr Works kWorks[] = {
    // torchrun
    {"--nproc_per_node 2", "launch.nproc", "2"},
    {"--nproc-per-node=2", "launch.nproc", "2"},
    {"--standalone --nproc_per_node=2", "launch.nproc", "2"},
    {"--max_restarts 3", "launch.max_restarts", "3"},
    // StyleGAN's train.py
    {"--gpus 2", "launch.nproc", "2"},
    {"--gpus=2", "launch.nproc", "2"},
    {"--outdir out", "run.out", "out"},
    {"--cfg auto", "preset", "stylegan2-ada"},
    {"--cfg paper256", "preset", "stylegan2-paper256"},
    {"--cfg stylegan2", "preset", "stylegan2-ada"},
    {"--resume=noresume", "run.resume", "none"},
    {"--aug noaug", "ada.mode", "none"},
    {"--aug ada --target 0.7", "ada.target", "0.7"},
    {"--augpipe bg", "ada.pipe", "bg"},
    {"--gamma 3", "stylegan2.gamma", "3"},
    {"--gamma=3", "stylegan2.gamma", "3"},
    {"--freezed 2", "stylegan2.freeze_d", "2"},
    {"--glr 0.001", "G.adam.lr", "0.001"},
    {"--dlr 0.001", "D.adam.lr", "0.001"},
    {"--batch-gpu 4", "train.micro_batch", "4"},
    {"--cbase 1024", "stylegan2.channel_base", "1024"},
    {"--tick 2", "train.tick", "2"},
    {"--snap 10", "save.every", "40"},
    {"--snap=10 --tick=2", "save.every", "20"},
    {"--mirror yes", "data.mirror", "true"},
    {"--mirror 0", "data.mirror", "false"},
    {"--cond 0", "data.cond", "off"},
    {"--run_dir here", "run.run_dir", "here"},
    // MMagic
    {"--work-dir here", "run.run_dir", "here"},
    {"--cfg-options train.seed=7", "train.seed", "7"},
    {"--launcher pytorch --auto-scale-lr", "train.lr_scale", "linear"},
    {"--resume-from none", "run.resume", "none"},
    // accelerate and diffusers
    {"--num_processes 2", "launch.nproc", "2"},
    {"--mixed_precision bf16", "precision.amp", "bf16"},
    {"--mixed_precision=no", "precision.amp", "off"},
    {"--gradient_accumulation_steps 2", "train.accumulate", "2"},
    {"--train_data_dir synth:shapes", "data.path", "synth:shapes"},
    {"--resume_from_checkpoint latest", "run.resume", "auto"},
    {"--random_flip", "data.mirror", "true"},
    // Lightning
    {"--devices 2", "launch.nproc", "2"},
    {"--precision bf16-mixed", "precision.amp", "bf16"},
    {"--accumulate_grad_batches 2", "train.accumulate", "2"},
    {"--accelerator cpu", "launch.device", "cpu"},
    // PyTorch's examples
    {"--batch-size 32", "train.batch", "32"},
    {"--batchSize 32", "train.batch", "32"},
    {"--dataroot synth:shapes", "data.path", "synth:shapes"},
    {"--manualSeed 5", "train.seed", "5"},
    {"--amp bf16", "precision.amp", "bf16"},
    {"--set G.lr=0.001", "G.adam.lr", "0.001"},
    {"--set G.lr=0.5 G.optimizer=sgd", "G.sgd.lr", "0.5"},
};

// What is typed, and what the refusal tells to type.
struct Hinted {
  const char* typed;
  const char* hint;
};

constexpr Hinted kHinted[] = {
    {"--snap often", "a number of ticks"},
    {"--network net.pkl --seeds 0-3", "gantrain generate --model net.pkl --seeds 0-63 -o grid.png"},
    {"--source photos", "gantrain data pack photos -o NAME.zip"},
    {"--batch-size=abc", "given as --batch-size=abc"},
    {"--aug strange", "given as --aug strange"},
    {"--lr 0.001", "--set G.lr=0.001 --set D.lr=0.001"},
    {"--learning_rate 0.001", "--set G.lr=0.001 --set D.lr=0.001"},
    {"--fp32 1", "--amp=off"},
    {"--rdzv_endpoint=host:29500", "--master-addr HOST"},
    {"--train_batch_size 8", "--batch N"},
    {"--max_train_steps 1000", "--kimg"},
    {"--max_epochs 10", "--kimg"},
    {"--epochs 10", "--kimg"},
    {"--checkpointing_steps 500", "--save-every"},
    {"--strategy ddp", "--ddp-mode"},
    {"--fast_dev_run", "gantrain --smoke"},
    {"--gpus", "--gpus needs a value"},
    {"--run-dir --seed 3", "--run-dir needs a value, and --seed is a flag"},
    {"--btach 4", "--batch"},
};

TEST_CASE("FlagsThatMeanTheSameInOtherTrainersWork") {
  const TemporaryFolder folder;
  for (const Works& habit : kWorks) {
    CAPTURE(habit.typed);
    const Json all = values("--preset stylegan2-tiny " + std::string(habit.typed), folder.path());
    CHECK(value_of(all, habit.key) == habit.value);
  }
}

TEST_CASE("FlagsOfStyleGan3AndR3GanSetTheKeysOfTheirRecipes") {
  const TemporaryFolder folder;
  const Json s3 = values(
      "--cfg=stylegan3-r --resolution 64 --gpus=1 --batch=4 --gamma=2 --freezed=2 --cbase=4096 "
      "--cmax=64 --map-depth=3 --mbstd-group=2 --aug=ada --p=0.2 --desc=mine --cond=0",
      folder.path());
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"stylegan3.gamma", "2"},
                                          {"stylegan3.freeze_d", "2"},
                                          {"stylegan3.channel_base", "4096"},
                                          {"stylegan3.channel_max", "64"},
                                          {"stylegan3.map_depth", "3"},
                                          {"stylegan3.mbstd_group", "2"},
                                          {"ada.mode", "ada"},
                                          {"data.cond", "off"}}) {
    CAPTURE(key);
    CHECK(value_of(s3, key) == value);
  }
  CHECK(value_of(values("--preset=CIFAR10 --gpus=1 --aug=1 --cond 1", folder.path()), "preset") ==
        "r3gan-cifar");
  const Json r3 = values("--preset FFHQ-64 --mirror=1 --aug=False", folder.path());
  CHECK(value_of(r3, "preset") == "r3gan-ffhq64");
  CHECK(value_of(r3, "ada.mode") == "none");
}

TEST_CASE("AConfigurationOfTrainPyMeansWhatItMeansThere") {
  const TemporaryFolder folder;
  using Expected = std::map<std::string, std::string>;
  const Expected stylegan2 = {{"preset", "stylegan2-ada"},
                              {"ada.mode", "ada"},
                              {"data.mirror", "false"},
                              {"train.batch", "32"},
                              {"stylegan2.gamma", "10"},
                              {"stylegan2.map_depth", "8"},
                              {"stylegan2.channel_base", "32768"},
                              {"stylegan2.mbstd_group", "4"},
                              {"G.adam.lr", "0.002"},
                              {"D.adam.lr", "0.002"},
                              {"ema.half_life", "10"}};
  Expected changed = stylegan2;
  for (const auto& [key, value] : Expected{{"ada.mode", "none"},
                                           {"data.mirror", "true"},
                                           {"train.batch", "16"},
                                           {"stylegan2.gamma", "1"},
                                           {"stylegan2.map_depth", "2"},
                                           {"G.adam.lr", "0.003"},
                                           {"ema.half_life", "5"}})
    changed[key] = value;
  for (const auto& [typed, expected] : std::vector<std::pair<std::string, Expected>>{
           {"--cfg=stylegan2", stylegan2},
           {"--map-depth=2 --glr 0.003 --mirror=1 --batch-size 16 --cfg=stylegan2 --gamma=1 "
            "--aug=noaug",
            changed},
           {"--cfg auto", {{"data.mirror", "false"}, {"stylegan2.map_depth", "2"}}},
           {"--mirror yes --cfg auto", {{"data.mirror", "true"}}},
           {"--cfg=paper1024 --batch 8", {{"data.mirror", "false"}, {"train.batch", "8"}}},
           {"--cfg=stylegan3-r", {{"data.mirror", "false"}, {"ada.mode", "ada"}}},
           {"--cfg=fastgan", {{"data.mirror", "false"}}}}) {
    const Json all = values("--resolution 64 " + typed, folder.path());
    for (const auto& [key, value] : expected) {
      CAPTURE(typed, key);
      CHECK(value_of(all, key) == value);
    }
  }
  const Outcome said =
      gantrain(words_of("--cfg=stylegan3-t --resolution 64 --dry-run"), {.folder = folder.path()});
  CHECK_THAT(said.out,
             Catch::Contains("taken   --cfg=stylegan3-t for --preset stylegan3-t, with "
                             "--mirror=off unless flags say otherwise\n"));
}

TEST_CASE("FlagsThatMeanSomethingElseAreRefusedWithTheSpellingToType") {
  const TemporaryFolder folder;
  for (const Hinted& habit : kHinted) {
    CAPTURE(habit.typed);
    CHECK_THAT(refusal("--preset stylegan2-tiny " + std::string(habit.typed), folder.path()),
               Catch::Contains(habit.hint));
  }
}

TEST_CASE("StyleGansNamesOfMetricsWork") {
  const TemporaryFolder folder;
  write_file(folder / "detector.pt", "");
  const auto names = [&](const std::string& metrics) {
    const Json all = values("--preset stylegan2-tiny --detector detector.pt --metrics " + metrics,
                            folder.path());
    return value_of(all, "metrics.names");
  };
  CHECK(names("fid50k_full") == "fid");
  CHECK(names("kid50k_full") == "kid");
  CHECK(names("pr50k3_full") == "pr");
  CHECK(names("ppl2_wend") == "ppl");
  CHECK(names("is50k,swd") == "is,swd");
  CHECK(names("eqt50k_int,eqt50k_frac,eqr50k") == "eqt,eqt_frac,eqr");
  CHECK(names("none") == "none");
  const Outcome said = gantrain(
      words_of("--preset dcgan-tiny --dry-run --detector detector.pt --metrics=fid50k_full,kid50k"),
      {.folder = folder.path()});
  REQUIRE(said.code == 0);
  CHECK_THAT(said.out,
             Catch::Contains("taken   --metrics fid50k_full,kid50k for --metrics fid,kid; "));
  // As for this program's own names, a detector is asked for where there is none.
  CHECK_THAT(refusal("--preset dcgan-tiny --metrics fid50k_full", folder.path()),
             Catch::Contains("--detector"));
  CHECK_THAT(refusal("--preset dcgan-tiny --metrics eqt50k", folder.path()),
             Catch::Contains("eqt50k is not a metric"));
  const Json best =
      values("--preset dcgan-tiny --detector detector.pt --keep-best fid50k_full", folder.path());
  CHECK(value_of(best, "save.keep_best") == "fid");
  const Outcome verb =
      gantrain(words_of("metrics run --metrics=fid50k_full"), {.folder = folder.path()});
  CHECK(verb.code == 2);
  CHECK_THAT(verb.err,
             Catch::Contains("taken   --metrics fid50k_full for --metrics fid\n") &&
                 Catch::Contains("--detector"));
}

TEST_CASE("ANetworkPickleIsToBeImported") {
  const TemporaryFolder folder;
  for (const std::string flag : {"--resume ", "--resume="}) {
    CAPTURE(flag);
    CHECK_THAT(refusal("--preset stylegan2-tiny " + flag + "ffhq.pkl", folder.path()),
               Catch::Contains("gantrain import ffhq.pkl -o ffhq.safetensors") &&
                   Catch::Contains("--init-from ffhq.safetensors"));
    CHECK_THAT(refusal("--preset stylegan2-tiny " + flag + "https://x/y.pkl", folder.path()),
               Catch::Contains("download it first: curl -fL -o y.pkl https://x/y.pkl"));
  }
}

TEST_CASE("WhatAFlagWasTakenForIsSaid") {
  const TemporaryFolder folder;
  const Outcome outcome = gantrain(words_of("--preset dcgan-tiny --device cpu --dry-run --gpus 2"),
                                   {.folder = folder.path()});
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, Catch::Contains("taken   --gpus 2 for --nproc 2\n"));
}

TEST_CASE("FlagsOfOtherScriptsWorkInTheVerbThatDoesTheirWork") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "in");
  write_file(folder / "in/a.png", encode_png(test_picture(20, 20, 3)));
  const Outcome packed =
      gantrain(words_of("data pack --source in --dest=out.zip --resolution=16x16 "
                        "--transform center-crop --max_images 1"),
               {.folder = folder.path()});
  INFO(packed.err);
  CHECK(packed.code == 0);
  CHECK(std::filesystem::exists(folder / "out.zip"));
  CHECK_THAT(packed.err,
             Catch::Contains("taken   --source in for in\n") &&
                 Catch::Contains("taken   --dest=out.zip for --output out.zip\n") &&
                 Catch::Contains("taken   --transform center-crop for --fit crop\n"));
  const Outcome sides =
      gantrain(words_of("data pack in --dest wide.zip --width 16 --fit crop --height=8"),
               {.folder = folder.path()});
  INFO(sides.err);
  CHECK(sides.code == 0);
  CHECK_THAT(sides.err, Catch::Contains("taken   --width 16 --height=8 for --resolution 16x8\n"));
  const Outcome side =
      gantrain(words_of("data pack in --dest one.zip --width 16"), {.folder = folder.path()});
  CHECK(side.code == 0);
  CHECK_THAT(side.err, Catch::Contains("taken   --width 16 for --resolution 16\n"));
  for (const auto& [typed, hint] : std::vector<std::pair<std::string, std::string>>{
           {"generate run --rows 85,100 -o a.png", "--mix 85,100:COLUMNS:LAYERS"},
           {"interpolate run --num-keyframes 4 -o a.webp", "--seeds"},
           {"project a.png --model run --threads 2 --outdir out", "OMP_NUM_THREADS=2"},
           {"generate run --kimg 3 -o a.png", "--kimg is a flag of the training"},
           {"generate run --nothing-like-it -o a.png", "gantrain generate --help lists all"},
           {"dataset_tool.py --source in --dest out.zip",
            "here: gantrain data pack --source in --dest out.zip"},
           {"./gen_images.py --seeds 0-3", "here: gantrain generate --seeds 0-3"}}) {
    CAPTURE(typed);
    const Outcome outcome = gantrain(words_of(typed), {.folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK(is_one_error_line(outcome.err));
    CHECK_THAT(outcome.err, Catch::Contains(hint));
  }
}

TEST_CASE("WhatAVerbTakesForAnotherScriptsFlagItHas") {
  for (const std::string verb :
       {"data pack", "generate", "interpolate", "project", "edit", "metrics", "import", "launch"}) {
    const std::string help = gantrain(words_of(verb + " --help")).out;
    for (const Habit& habit : habits_of_verb(verb)) {
      CAPTURE(verb, habit.names);
      for (const std::string& name : split(habit.names, ',')) CHECK(!holds(help, name + " "));
      if (habit.meaning == Meaning::kSame && starts_with(habit.text, "-"))
        CHECK(holds(help, habit.text.substr(0, habit.text.find(' '))));
    }
  }
}

TEST_CASE("NoHabitHidesAFlagOfTheProgram") {
  const Words own = training_flag_names();
  Words seen;
  for (const Habit& habit : habits()) {
    for (const std::string& name : split(habit.names, ',')) {
      CAPTURE(name);
      CHECK(std::count(own.begin(), own.end(), name) == 0);
      CHECK(std::count(seen.begin(), seen.end(), name) == 0);
      seen.push_back(name);
      if (habit.meaning != Meaning::kSame) continue;
      const std::string flag = habit.text.substr(0, habit.text.find_first_of(" ="));
      CHECK(std::count(own.begin(), own.end(), flag) == 1);
    }
  }
  CHECK(seen.size() > 60);
}

TEST_CASE("EveryFlagOfTrainIsKnownToTheTranslation") {
  const Outcome help = gantrain(words_of("train --help"));
  REQUIRE(help.code == 0);
  const Words own = training_flag_names();
  size_t found = 0;
  for (const std::string& line : split(help.out, '\n')) {
    const std::string text = trim(line);
    const size_t at = text.find("--");
    if (at == std::string::npos || at > 3 || !starts_with(text, "-")) continue;
    const std::string name = text.substr(at, text.find_first_of(" ,{=[", at) - at);
    CAPTURE(line);
    CHECK(std::count(own.begin(), own.end(), name) == 1);
    ++found;
  }
  CHECK(found > 40);
}

TEST_CASE("AKeyOfAnotherRecipeNamesThatRecipe") {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& flags) {
    return refusal("--preset dcgan-tiny " + flags, folder.path());
  };
  CHECK_THAT(told("--set stylegan2.gamma=3"),
             Catch::Contains("belongs to recipe stylegan2") && Catch::Contains("stylegan2-tiny") &&
                 Catch::Contains("this run's recipe is dcgan"));
  CHECK_THAT(told("--set stylegan2.nothing=3"), Catch::Contains("keys of recipe stylegan2"));
  CHECK_THAT(refusal("--aug ada", folder.path()),
             Catch::Contains("presets stylegan2-ada") &&
                 Catch::Contains("this run's recipe is dcgan, because no --preset was given") &&
                 Catch::Contains("given as --aug ada"));
  CHECK_THAT(told("--gamma 3"), Catch::Contains("stylegan1.r1_gamma, stylegan2.gamma"));
  CHECK_THAT(told("--set laten=3"), Catch::Contains("did you mean dcgan.latent?"));
  CHECK_THAT(told("--cbase 1024"),
             Catch::Contains("stylegan2.channel_base, stylegan3.channel_base"));
  write_file(folder / "own.json", R"({"stylegan2": {"gamma": 3}})");
  CHECK_THAT(told("--config own.json"),
             Catch::Contains("file own.json") && Catch::Contains("belongs to recipe stylegan2"));
  const Outcome variable =
      gantrain(words_of("--preset dcgan-tiny --dry-run --json"),
               {.environment = {{"GANTRAIN_STYLEGAN2__GAMMA", "3"}}, .folder = folder.path()});
  CHECK(variable.code == 2);
  CHECK_THAT(variable.err,
             Catch::Contains("GANTRAIN_STYLEGAN2__GAMMA") &&
                 Catch::Contains("belongs to recipe stylegan2"));
}

TEST_CASE("APresetCopiedToAFileIsThatPreset") {
  const TemporaryFolder folder;
  for (const std::string& name : preset_names()) {
    CAPTURE(name);
    const Outcome shown = gantrain({"presets", "show", name});
    REQUIRE(shown.code == 0);
    write_file(folder / "copy.json", shown.out);
    const Json preset = values("--preset " + name, folder.path());
    const Json copy = values("--config copy.json", folder.path());
    CHECK(copy.at("recipe").at("value") == preset.at("recipe").at("value"));
    for (const auto& [key, entry] : preset.items()) {
      CAPTURE(key);
      if (key != "preset") CHECK(copy.at(key).at("value") == entry.at("value"));
    }
  }
}

TEST_CASE("AFileExtendsAPresetOrAnotherFileAndOriginsShowTheChain") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "base");
  write_file(folder / "base/wide.json", R"({"base": "dcgan-tiny", "dcgan": {"channels": 48}})");
  write_file(folder / "own.json", R"({"base": "base/wide.json", "train": {"seed": 3}})");
  const Json all = values("--config own.json", folder.path());
  const auto origin = [&](const std::string& key) { return all.at(key).at("origin"); };
  CHECK(value_of(all, "dcgan.channels") == "48");
  CHECK(origin("dcgan.channels") == "file base/wide.json");
  CHECK(origin("train.seed") == "file own.json");
  CHECK(origin("train.batch") == "preset dcgan-tiny");
  CHECK(value_of(all, "preset") == "dcgan-tiny");
  CHECK(origin("preset") == "base of file base/wide.json");
  CHECK_THAT(refusal("--preset pggan --config own.json", folder.path()),
             Catch::Contains("preset = pggan (flag --preset)") && Catch::Contains("dcgan-tiny"));
}

TEST_CASE("BasesThatCannotBeAreRefusedWithTheFile") {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& text) {
    write_file(folder / "own.json", text);
    return refusal("--config own.json", folder.path());
  };
  write_file(folder / "other.json", R"({"base": "own.json"})");
  CHECK_THAT(told(R"({"base": "other.json"})"),
             Catch::Contains("circle: own.json -> other.json -> own.json"));
  CHECK_THAT(told(R"({"base": "own.json"})"), Catch::Contains("circle"));
  CHECK_THAT(
      told(R"({"base": "stylgan2"})"),
      Catch::Contains("own.json: base = stylgan2") && Catch::Contains("did you mean stylegan2"));
  CHECK_THAT(told(R"({"base": 3})"), Catch::Contains("own.json: base = 3"));
  CHECK_THAT(told(R"({"base": ""})"), Catch::Contains("own.json: base is empty"));
  CHECK_THAT(told("[1]"), Catch::Contains("own.json: a JSON object is expected"));
}

TEST_CASE("HelpSaysWhichRecipeHasAKey") {
  const Outcome all = gantrain(words_of("help keys"));
  REQUIRE(all.code == 0);
  CHECK_THAT(all.out,
             Catch::StartsWith("Keys of every recipe:\n") &&
                 Catch::Contains("\nKeys of recipe stylegan2:\nstylegan2."));
  const Outcome one = gantrain(words_of("help keys pggan"));
  REQUIRE(one.code == 0);
  CHECK_THAT(one.out,
             Catch::Contains("\npggan.latent_size ") && Catch::Contains("\ntrain.batch ") &&
                 !Catch::Contains("\nstylegan2."));
  CHECK(gantrain(words_of("help keys pgan")).code == 2);
  CHECK(gantrain(words_of("help exit pggan")).code == 2);
}

TEST_CASE("ADryRunShowsWhatWasSetAndWithVEveryKey") {
  const auto shown = [](const std::string& flags) {
    const Outcome outcome =
        gantrain(words_of("--preset dcgan-tiny --device cpu --seed 4 --dry-run " + flags));
    REQUIRE(outcome.code == 0);
    return outcome.out;
  };
  CHECK_THAT(shown(""),
             Catch::Contains("train.seed") && Catch::Contains("preset dcgan-tiny") &&
                 !Catch::Contains("metrics.collapse_after") && Catch::Contains("-v shows them"));
  CHECK_THAT(shown("-v"),
             Catch::Contains("metrics.collapse_after") && !Catch::Contains("-v shows them"));
}

}  // namespace
}  // namespace gantrain
