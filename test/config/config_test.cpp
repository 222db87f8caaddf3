// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"

#include "refusal.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

struct Inner {
  double lr = 0.1;
};
template <class Field>
void fields(Inner& o, Field&& field) {
  field("lr", o.lr, between(0, 1), "learning rate");
}

struct Outer {
  int64_t batch = 64;
  bool mirror = false;
  std::string path = "here";
  std::optional<int64_t> accumulate;
  Kimg kimg{1000};
  Duration limit{60};
  Inner G;
};
template <class Field>
void fields(Outer& o, Field&& field) {
  field("batch", o.batch, at_least(1), "batch");
  field("mirror", o.mirror, "flip");
  field("path", o.path, "path");
  field("accumulate", o.accumulate, at_least(1), "parts");
  field("kimg", o.kimg, "length");
  field("limit", o.limit, "time");
  field("G", o.G, "nested");
}

Config fresh() {
  Schema schema;
  add_keys<Outer>(schema, "train.");
  return Config(schema);
}

}  // namespace

TEST_CASE("DefaultsAreTheStructs") {
  const Outer o = fresh().read<Outer>("train.");
  CHECK(o.batch == 64);
  CHECK(o.G.lr == 0.1);
  CHECK_FALSE(o.accumulate);
}

TEST_CASE("LaterLayersWinAndAreRemembered") {
  Config config = fresh();
  config.set_tree(
      parse_json(R"({"train": {"batch": 8, "G": {"lr": 0.5}}} // why)", "f", Exit::kUsage),
      "file f");
  config.set("train.batch", "16", "flag --batch");
  const Outer o = config.read<Outer>("train.");
  CHECK(o.batch == 16);
  CHECK(o.G.lr == 0.5);
  CHECK(config.origin("train.batch") == "flag --batch");
  CHECK(config.origin("train.G.lr") == "file f");
  CHECK(config.origin("train.path") == "default");
  CHECK(config.given("train.batch"));
  CHECK_FALSE(config.given("train.path"));
}

TEST_CASE("AnUnknownKeyNamesTheNearest") {
  Config config = fresh();
  const std::string text = refusal_of([&] { config.set("train.bacth", 1, "flag --set"); });
  CHECK(text == "unknown key train.bacth (flag --set); did you mean train.batch?");
}

TEST_CASE("AWrongValueNamesKeyValueOriginAndWhatIsAllowed") {
  Config config = fresh();
  CHECK(refusal_of([&] { config.set("train.batch", "many", "flag --batch"); }) ==
        "train.batch = many (flag --batch): allowed: integer, at least 1");
  CHECK(refusal_of([&] { config.set("train.G.lr", 2, "file f"); }) ==
        "train.G.lr = 2 (file f): allowed: number, 0 to 1");
  CHECK_FALSE(refusal_of([&] { config.set("train.accumulate", 0, "x"); }).empty());
}

TEST_CASE("ASavedConfigReadsBackTheSame") {
  Config config = fresh();
  config.set("train.kimg", "25k", "flag");
  config.set("train.limit", "2m", "flag");
  config.set("train.accumulate", "4", "flag");
  Config again = fresh();
  again.set_tree(config.to_json(), "file");
  CHECK(differences(config, again).empty());
  CHECK(again.read<Outer>("train.").kimg.images == 25000);
  CHECK(again.read<Outer>("train.").limit.seconds == 120);
}

TEST_CASE("TheEnvironmentReachesKeysInAnyCase") {
  Config config = fresh();
  set_from_environment(config,
                       {{"GANTRAIN_TRAIN__BATCH", "8"},
                        {"GANTRAIN_TRAIN__G__LR", "0.3"},
                        {"GANTRAIN_CACHE_DIR", "/x"}});
  CHECK(config.read<Outer>("train.").batch == 8);
  CHECK(config.read<Outer>("train.").G.lr == 0.3);
  CHECK_FALSE(refusal_of([&] {
                set_from_environment(config, {{"GANTRAIN_TRAIN__BACTH", "8"}});
              }).empty());
}

TEST_CASE("ANameThatIsTwiceInAnObjectIsRefused") {
  const auto error_of = [](const std::string& text) {
    return refusal_of([&] { parse_json(text, "my.json", Exit::kUsage); });
  };
  CHECK(error_of(R"({"a": {"b": 1}, "a": {"c": 2}})") == "my.json: a is there twice");
  CHECK(error_of(R"({"x": [{"b": 1, "b": 1}]})") == "my.json: b is there twice");
  CHECK(error_of(R"({"a": {"b": 1}, "c": {"b": [1, 1]}})") == "");
}

TEST_CASE("AKeyThatIsSetTwiceInAFileIsRefused") {
  Config config = fresh();
  const Json both = Json::parse(R"({"train.batch": 4, "train": {"batch": 8}})");
  CHECK(refusal_of([&] { config.set_tree(both, "file f"); }) ==
        "file f: train.batch is there twice");
}

TEST_CASE("ARunsConfigSaysValuesAndOrigins") {
  const TemporaryFolder run;
  CHECK(read_saved_config(run.path(), Unreadable::kRefused).values.is_null());
  CHECK(read_saved_config("", Unreadable::kRefused).values.is_null());
  write_file(run / "config.json",
             R"({"values": {"a": {"value": 8, "origin": "flag --a"}, "b": {"value": "x"}}})");
  const SavedConfig saved = read_saved_config(run.path(), Unreadable::kRefused);
  REQUIRE(saved.find("a"));
  CHECK(saved.find("a")->value == 8);
  CHECK(saved.find("a")->origin == "flag --a");
  CHECK_FALSE(saved.find("b"));  // of no known origin
  CHECK(saved.value("b") == "x");
  CHECK(saved.text("a") == "8");
  CHECK(saved.text("b") == "x");
  CHECK(saved.text("c").empty());
  CHECK(saved.value("c").is_null());
}

TEST_CASE("ABrokenConfigOfARunIsRefusedOrIgnored") {
  const TemporaryFolder run;
  write_file(run / "config.json", "{");
  CHECK(read_saved_config(run.path(), Unreadable::kIgnored).values.is_null());
  CHECK_THROWS_AS(read_saved_config(run.path(), Unreadable::kRefused), UserError);
  write_file(run / "config.json", R"({"values": [1]})");
  CHECK(read_saved_config(run.path(), Unreadable::kRefused).text("a").empty());
}

TEST_CASE("JsonWithoutEndIsRefused") {
  std::string deep = "1";
  for (int i = 0; i < 1000; ++i) deep = R"({"a":)" + deep + "}";
  CHECK(refusal_of([&] { parse_json(deep, "my.json", Exit::kUsage); }) ==
        "my.json: more than 64 levels deep");
  deep = std::string(100000, '[');
  CHECK(refusal_of([&] { parse_json(deep, "my.json", Exit::kUsage); }) ==
        "my.json: more than 64 levels deep");
  std::string wide = "{";
  for (int i = 0; i < 20'000; ++i) wide += "\"" + std::to_string(i) + "\": 1, ";
  CHECK(refusal_of([&] { parse_json(wide + "\"a\": 1}", "my.json", Exit::kUsage); }) ==
        "my.json: more than 16384 names in one object");
}

TEST_CASE("ANumberThatNoDoubleHoldsIsRefused") {
  const std::string text = refusal_of([] { parse_json("[1e999]", "my.json", Exit::kUsage); });
  CHECK(text.find("my.json: not JSON: ") == 0);
  CHECK(text.find("1e999") != std::string::npos);
}

TEST_CASE("BrokenJsonNamesFileAndLine") {
  const std::string text = refusal_of([] { parse_json("{\n\"a\": }", "my.json", Exit::kUsage); });
  CHECK(text.find("my.json: line 2") == 0);
}
