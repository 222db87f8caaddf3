// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "support/catch.h"
#include "support/temporary_folder.h"
#include "tune/finetune.h"
#include "util/file.h"

namespace gantrain {
namespace {

struct NetOptions {
  int64_t freeze_d = 0;
  std::string mode = "none", augmentation = "ada";
  bool mirror = false;
  double p = 0;
  Kimg kimg{1'000'000}, ada_kimg{500'000};
  ScheduledKimg half_life = Kimg{10'000};
};

template <class Field>
void fields(NetOptions& o, Field&& field) {
  field("net.freeze_d", o.freeze_d, at_least(0), "layers");
  field("ada.mode", o.mode, "mode");
  field("augment.mode", o.augmentation, "augmentation");
  field("data.mirror", o.mirror, "mirrored");
  field("ada.p", o.p, between(0, 1), "strength");
  field("ada.kimg", o.ada_kimg, "speed");
  field("train.kimg", o.kimg, "length");
  field("ema.half_life", o.half_life, "half-life");
}

struct NameOptions {
  std::string recipe = "net";
};

template <class Field>
void fields(NameOptions& o, Field&& field) {
  field("recipe", o.recipe, "recipe");
}

struct GrowthOptions {
  int64_t start = 4;
};

template <class Field>
void fields(GrowthOptions& o, Field&& field) {
  field("schedule.start", o.start, at_least(4), "pixels");
}

struct CadenceOptions {
  Kimg metrics{50'000}, save{50'000}, after{20'000};
  bool at_start = false;
};

template <class Field>
void fields(CadenceOptions& o, Field&& field) {
  field("metrics.every", o.metrics, "measurements");
  field("metrics.at_start", o.at_start, "the first one");
  field("metrics.collapse_after", o.after, "collapse");
  field("save.every", o.save, "states");
}

Config net_config(bool cadence = false) {
  Schema schema;
  add_keys<NameOptions>(schema);
  add_keys<NetOptions>(schema);
  if (cadence) add_keys<CadenceOptions>(schema);
  return Config(schema);
}

std::map<std::string, std::string> chosen(int64_t pictures,
                                          const StartingModel& model,
                                          const Config& config = net_config()) {
  std::map<std::string, std::string> values;
  for (const FinetuneChoice& choice : finetune_choices(config, model, pictures, "swd")) {
    const size_t equals = choice.pair.find('=');
    CHECK(!choice.why.empty());
    values[choice.pair.substr(0, equals)] = choice.pair.substr(equals + 1);
  }
  return values;
}

StartingModel model_of(int64_t pixels, bool discriminator = true) {
  return {.path = "m",
          .recipe = "net",
          .resolution = square_of(pixels),
          .has_discriminator = discriminator};
}

TEST_CASE("TheTableCoversEveryNumberOfPictures") {
  const auto& table = finetune_rules();
  for (size_t i = 1; i < table.size(); ++i) {
    CHECK(table[i].most_pictures > table[i - 1].most_pictures);
    CHECK(table[i].kimg >= table[i - 1].kimg);
    CHECK(table[i].frozen <= table[i - 1].frozen);
  }
  CHECK(&rule_for(2) == &table.front());
  CHECK(&rule_for(200) == &table.front());
  CHECK(&rule_for(201) == &table[1]);
  CHECK(&rule_for(70'000'000) == &table.back());
}

// What StyleGAN3's advice calls good values, 10 and 13, are half of D at 256 and 1024 pixels.
TEST_CASE("HalfOfDIsWhatOthersFoundGood") {
  CHECK(layers_in(0.5, 1024) == 13);
  CHECK(layers_in(0.5, 256) == 10);
  CHECK(layers_in(0.5, 32) == 4);
  CHECK(layers_in(0.25, 256) == 4);
  CHECK(layers_in(0, 256) == 0);
}

TEST_CASE("WhatIsChosenFollowsTheNumberOfPictures") {
  const auto few = chosen(150, model_of(256));
  CHECK(few.at("train.kimg") == "500");
  CHECK(few.at("net.freeze_d") == "10");
  CHECK(few.at("ada.p") == "0");
  CHECK(few.at("ada.mode") == "ada");
  CHECK(few.at("ada.kimg") == "100");
  CHECK(few.at("data.mirror") == "on");
  const auto many = chosen(50'000, model_of(256));
  CHECK(many.at("net.freeze_d") == "0");
  CHECK(few.count("metrics.every") == 0);  // no such key here
}

TEST_CASE("ADiscriminatorDrawnAnewIsNotFixed") {
  CHECK(chosen(150, model_of(256, false)).at("net.freeze_d") == "0");
}

// Whoever does not say how long the model was trained gets what a trained one gets.
TEST_CASE("LayersOfADiscriminatorThatLearntLittleAreNotKept") {
  StartingModel model = model_of(256);
  CHECK(chosen(150, model).at("net.freeze_d") == "10");
  model.kimg = 999;
  CHECK(chosen(150, model).at("net.freeze_d") == "0");
  model.kimg = 1'000;
  CHECK(chosen(150, model).at("net.freeze_d") == "10");
}

TEST_CASE("FinetuningIsNoLongerThanTheModelsOwnTraining") {
  StartingModel tiny = model_of(32);
  tiny.kimg = 120;
  CHECK(chosen(1'500, tiny).at("train.kimg") == "120");
}

TEST_CASE("DiffAugmentAndAFixedStrengthStay") {
  for (const auto& [key, value] : {std::pair{"augment.mode", "diff"}, {"ada.mode", "fixed"}}) {
    CAPTURE(key);
    Config config = net_config();
    config.set(key, value, "test");
    const auto choices = chosen(150, model_of(256), config);
    for (const char* one : {"ada.mode", "ada.p", "ada.kimg"}) CHECK(choices.count(one) == 0);
  }
}

TEST_CASE("AugmentationThatCannotFollowDIsNotChosen") {
  StartingModel model = model_of(256);
  model.adaptive = false;
  for (const char* key : {"ada.mode", "ada.p", "ada.kimg"})
    CHECK(chosen(150, model).count(key) == 0);
}

TEST_CASE("PicturesThatAreSeldomShownAreNotMirrored") {
  StartingModel tiny = model_of(32);
  tiny.kimg = 100;
  CHECK(chosen(200, tiny).at("data.mirror") == "on");
  CHECK(chosen(201, tiny).at("data.mirror") == "off");
  // A model of mirrored letters would be no good.
  tiny.sets = {"data.mirror=false"};
  CHECK(chosen(200, tiny).at("data.mirror") == "off");
}

// The best model must have a state to go back to.
TEST_CASE("MeasurementsStatesAndSnapshotsAreOfTheSameMoments") {
  const StartingModel model = model_of(256);
  const auto check = [&](const Config& config, const std::string& every) {
    const auto values = chosen(150, model, config);
    CHECK(values.at("metrics.every") == every);
    CHECK(values.at("save.every") == every);
  };
  Config config = net_config(true);
  check(config, "20");
  config.set("save.every", "40", "flag --save-every");
  check(config, "40");
  config.set("metrics.every", "10", "flag --metrics-every");
  check(config, "10");
  CHECK(chosen(150, model, config).at("metrics.at_start") == "on");
}

TEST_CASE("CollapseIsLookedForFromTheStartWhereTheModelIsTrained") {
  StartingModel model = model_of(32);
  CHECK(chosen(150, model, net_config(true)).at("metrics.collapse_after") == "0");
  model.kimg = 5;
  CHECK(chosen(150, model, net_config(true)).count("metrics.collapse_after") == 0);
}

TEST_CASE("TheAverageOfAShortRunForgetsTheModelThatWasBegunAt") {
  StartingModel tiny = model_of(32);
  tiny.kimg = 20;
  CHECK(chosen(150, tiny).at("ema.half_life") == "2");
  CHECK(chosen(150, model_of(32)).count("ema.half_life") == 0);
}

TEST_CASE("TheEndOfARampedHalfLifeCounts") {
  StartingModel tiny = model_of(32);
  tiny.kimg = 20;
  Config config = net_config();
  config.set("ema.half_life", {{"from", 0}, {"to", 5000}, {"kimg", 20000}}, "preset");
  CHECK(chosen(150, tiny, config).at("ema.half_life") == "2");
}

TEST_CASE("AGrowingNetworkGoesOnAtItsSize") {
  Schema schema;
  add_keys<NameOptions>(schema);
  add_keys<NetOptions>(schema);
  add_keys<GrowthOptions>(schema);
  StartingModel model = model_of(64);
  CHECK(chosen(150, model, Config(schema)).at("schedule.start") == "64");
  model.level = 16;
  CHECK(chosen(150, model, Config(schema)).at("schedule.start") == "16");
  CHECK(chosen(150, model).count("schedule.start") == 0);
}

TEST_CASE("WhatARunWasToldComesAlongAsItWasAtTheEnd") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__": {"gantrain.kimg": "20000", "gantrain.level": "32"}})";
  const std::string length = {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  write_file(folder / "model-020000.safetensors", length + header);
  Json values = {{"recipe", "net"}, {"data.resolution", 64}, {"schedule.fade_kimg", 7}};
  for (Json& value : values) value = {{"value", value}, {"origin", "flag --set"}};
  const Json ramp = {{"from", 10}, {"to", 1}, {"kimg", 20000}, {"shape", "cosine"}};
  values["net.gamma"] = {{"value", ramp}, {"origin", "auto (net)"}};
  values["schedule.batch"] = {{"value", "4:128,16"}, {"origin", "auto (1 rank)"}};
  values["train.batch"] = {{"value", 128}, {"origin", "auto (schedule.batch)"}};
  values["G.adam.lr"] = {{"value", 2}, {"origin", "preset net"}};
  write_file(folder / "config.json", Json{{"values", values}}.dump());
  const StartingModel model = read_starting_model(
      folder.path(), [](const std::string&) -> std::vector<std::string> { return {}; });
  CHECK(model.level == 32);
  CHECK(model.sets == std::vector<std::string>{"schedule.fade_kimg=7", "net.gamma=1"});
}

}  // namespace
}  // namespace gantrain
