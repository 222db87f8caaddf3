// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "config/config.h"
#include "config/value.h"
#include "refusal.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

struct Rates {
  Scheduled lr = 2e-4;
  std::optional<Scheduled> gamma;
  ScheduledKimg half_life = Kimg{10'000};
};
template <class Field>
void fields(Rates& o, Field&& field) {
  field("lr", o.lr, between(0, 1), "learning rate");
  field("gamma", o.gamma, between(0, 1e6), "weight");
  field("half_life", o.half_life, between(0, 1e6), "kimg");
}

Config fresh_rates() {
  Schema schema;
  add_keys<Rates>(schema, "G.adam.");
  return Config(schema);
}

Rates rates_of(const Config& config) { return config.read<Rates>("G.adam."); }

const std::string kRamp = R"({"from": 0.9, "to": 0.99, "kimg": "2M", "shape": "cosine"})";
const Json kCanonical = {{"from", 0.9}, {"to", 0.99}, {"kimg", 2000}, {"shape", "cosine"}};

}  // namespace

TEST_CASE("ANumberStaysWhatItIs") {
  const Scheduled s = 0.25;
  CHECK(s.is_constant());
  for (const int64_t images : {int64_t{0}, int64_t{1}, int64_t{1} << 50})
    CHECK(s.at(images) == 0.25);
}

TEST_CASE("ARampGoesFromItsStartToItsEndAndStaysThere") {
  for (const RampShape shape : {RampShape::kLinear, RampShape::kCosine, RampShape::kStep}) {
    const Scheduled s(0.1, 0.7, Kimg{1000}, shape);
    CHECK_FALSE(s.is_constant());
    CHECK(s.at(0) == 0.1);
    CHECK(s.at(1000) == 0.7);
    CHECK(s.at(5'000'000) == 0.7);
    for (int64_t images = 0; images < 1000; ++images) CHECK(s.at(images) <= s.at(images + 1));
  }
}

TEST_CASE("BetweenItsEndsARampHasItsShape") {
  CHECK(Scheduled(1, 3, Kimg{1000}, RampShape::kLinear).at(250) == Approx(1.5));
  CHECK(Scheduled(1, 3, Kimg{1000}, RampShape::kCosine).at(250) == Approx(2 - std::sqrt(0.5)));
  CHECK(Scheduled(1, 3, Kimg{1000}, RampShape::kCosine).at(500) == Approx(2));
  const Scheduled step(1, 3, Kimg{1000}, RampShape::kStep);
  CHECK(step.at(999) == 1);
  CHECK(step.at(1000) == 3);
}

TEST_CASE("AScheduleReadsANumberOrARamp") {
  CHECK(Value<Scheduled>::from_text("2e-4") == Scheduled(2e-4));
  const Scheduled cosine(0.9, 0.99, Kimg{2'000'000}, RampShape::kCosine);
  CHECK(Value<Scheduled>::from_text(kRamp) == cosine);
  CHECK(Value<Scheduled>::from_text(R"( {"kimg": 0.5, "to": "1e-3", "from": 0})") ==
        Scheduled(0, 1e-3, Kimg{500}, RampShape::kLinear));
}

TEST_CASE("WhatIsNoScheduleIsRefused") {
  for (const char* bad : {"",
                          "abc",
                          "nan",
                          "[1, 2]",
                          "{",
                          "{}",
                          "{} x",
                          R"({"from": 1, "to": 2})",
                          R"({"from": 1, "kimg": 2})",
                          R"({"to": 1, "kimg": 2})",
                          R"({"from": 1, "to": 2, "kimg": 0})",
                          R"({"from": 1, "to": 2, "kimg": -1})",
                          R"({"from": 1, "to": 2, "kimg": "long"})",
                          R"({"from": "a", "to": 2, "kimg": 3})",
                          R"({"from": 1, "to": null, "kimg": 3})",
                          R"({"from": 1, "to": [2], "kimg": 3})",
                          R"({"from": 1, "to": 2, "kimg": 3, "shape": "round"})",
                          R"({"from": 1, "to": 2, "kimg": 3, "speed": 4})",
                          R"({"from": 1, "from": 1, "to": 2, "kimg": 3})",
                          R"({"from": 1, "to": {"from": 1, "to": 2, "kimg": 3}, "kimg": 3})"}) {
    CAPTURE(bad);
    CHECK_FALSE(Value<Scheduled>::from_text(bad));
  }
}

TEST_CASE("TheJsonOfAConstantIsItsNumber") {
  CHECK(Value<Scheduled>::to_json(2e-4).dump() == "0.0002");
  CHECK(Value<Scheduled>::to_json({3, 3, Kimg{1000}, RampShape::kCosine}).dump() == "3");
  CHECK(Value<Scheduled>::to_json(*Value<Scheduled>::from_text(kRamp)) == kCanonical);
  CHECK(Value<std::optional<Scheduled>>::to_json(std::nullopt) == "auto");
}

TEST_CASE("ALengthThatMovesIsInKimgAndCountsPicturesWithAUnit") {
  CHECK(Value<ScheduledKimg>::from_text("10")->at(0) == 10'000);
  CHECK(Value<ScheduledKimg>::from_text("200k")->at(7) == 200'000);
  CHECK_FALSE(Value<ScheduledKimg>::from_text("-1"));
  CHECK(Value<ScheduledKimg>::to_json(Kimg{500}).dump() == "0.5");
  const auto ramp = Value<ScheduledKimg>::from_text(
      R"({"from": 0, "to": "5M", "kimg": "20M", "shape": "linear"})");
  REQUIRE(ramp);
  CHECK(ramp->at(10'000'000) == 2'500'000);
  CHECK(Value<ScheduledKimg>::to_json(*ramp) ==
        Json{{"from", 0}, {"to", 5000}, {"kimg", 20000}, {"shape", "linear"}});
}

TEST_CASE("ARampIsTold") {
  CHECK(ramp_text(*Value<Scheduled>::from_text(kRamp)) == "0.9 to 0.99 over 2000 kimg, cosine");
  CHECK(ramp_text({1, 0, Kimg{500}, RampShape::kStep}) == "1 to 0 at 0.5 kimg, step");
  CHECK(ramp_text(0.5) == "0.5");
}

TEST_CASE("ScalingAScheduleScalesItsValues") {
  const Scheduled s(0.1, 0.7, Kimg{1000}, RampShape::kCosine);
  for (const int64_t images : {0, 300, 1000, 2000})
    CHECK(scaled(s, 4).at(images) == Approx(4 * s.at(images)));
}

TEST_CASE("ARampIsAValueInAFileNotASection") {
  for (const char* text :
       {R"({"G": {"adam": {"lr": {"from": 0.9, "to": 0.99, "kimg": "2M", "shape": "cosine"}}}})",
        R"({"G.adam.lr": {"shape": "cosine", "kimg": 2000, "to": 0.99, "from": 0.9}})"}) {
    Config config = fresh_rates();
    config.set_tree(parse_json(text, "f", Exit::kUsage), "file f");
    CHECK(config.get("G.adam.lr") == kCanonical);
    CHECK(config.origin("G.adam.lr") == "file f");
    CHECK(rates_of(config).lr.at(2'000'000) == 0.99);
  }
}

TEST_CASE("ARampComesFromFlagsAndTheEnvironmentToo") {
  Config config = fresh_rates();
  config.set("G.adam.lr", kRamp, "flag --set");
  set_from_environment(config, {{"GANTRAIN_G__ADAM__GAMMA", kRamp}});
  CHECK(config.get("G.adam.lr") == kCanonical);
  CHECK(config.get("G.adam.gamma") == kCanonical);
  CHECK(rates_of(config).gamma->at(0) == 0.9);
  config.set("G.adam.lr", "0.5", "flag --set");
  config.set("G.adam.gamma", "auto", "flag --set");
  CHECK(rates_of(config).lr == 0.5);
  CHECK_FALSE(rates_of(config).gamma);
}

TEST_CASE("ASavedConfigurationKeepsItsRamps") {
  Config config = fresh_rates();
  config.set("G.adam.lr", kRamp, "flag --set");
  config.set("G.adam.half_life", R"({"from": "10k", "to": 500, "kimg": 100})", "flag --set");
  const Json saved = Json::parse(config.to_json().dump());
  Config again = fresh_rates();
  again.set_tree(saved, "file");
  CHECK(differences(config, again).empty());
  CHECK(again.get("G.adam.lr") == config.get("G.adam.lr"));
  CHECK(rates_of(again).lr == rates_of(config).lr);
  CHECK(rates_of(again).half_life.at(50'000) == rates_of(config).half_life.at(50'000));
}

TEST_CASE("BothEndsOfARampMustBeAllowed") {
  const auto error_of = [](const std::string& key, const std::string& value) {
    Config config = fresh_rates();
    return refusal_of([&] { config.set(key, value, "flag --set"); });
  };
  CHECK(error_of("G.adam.lr", R"({"from":2,"to":1,"kimg":3})") ==
        R"(G.adam.lr = {"from":2,"to":1,"kimg":3} (flag --set): allowed: number or )"
        R"({"from": A, "to": B, "kimg": K, "shape": "linear"|"cosine"|"step"}, 0 to 1)");
  CHECK_THAT(error_of("G.adam.gamma", R"({"from":0,"to":-1,"kimg":3})"),
             Catch::StartsWith("G.adam.gamma = "));
  CHECK_THAT(error_of("G.adam.half_life", R"({"from":0,"to":"2000M","kimg":3})"),
             Catch::StartsWith("G.adam.half_life = "));
  CHECK_THAT(error_of("G.adam.lr", R"({"from":0,"to":1,"kmig":3})"),
             Catch::StartsWith("G.adam.lr = "));
  CHECK(error_of("G.adam.lr", R"({"from":0,"to":1,"kimg":3})").empty());
}

TEST_CASE("AnObjectWhereANumberBelongsNamesTheKey") {
  Schema schema;
  schema.push_back({"train.batch", "integer", "", "batch", 1, [](const Json& json) {
                      return json.is_number() ? std::optional<Json>(json) : std::nullopt;
                    }});
  Config config(schema);
  const Json tree = Json::parse(R"({"train": {"batch": {"from": 1}}})");
  CHECK(refusal_of([&] { config.set_tree(tree, "file f"); }) ==
        R"(train.batch = {"from":1} (file f): allowed: integer)");
}
