// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "support/catch.h"
#include "tune/race.h"
#include "util/error.h"

namespace gantrain {
namespace {

enum class Mode { kOff, kAda };
constexpr std::array<std::string_view, 2> names(Mode) { return {"off", "ada"}; }

struct SomeOptions {
  std::optional<Scheduled> gamma = Scheduled(0.4);
  Scheduled lr = {0.002, 0.001, {100'000}, RampShape::kLinear};
  std::optional<int64_t> part;
  int64_t batch = 16;
  Mode mode = Mode::kOff;
};

template <class Field>
void fields(SomeOptions& o, Field&& field) {
  field("some.gamma", o.gamma, between(0, 100), "weight");
  field("G.adam.lr", o.lr, between(0, 1), "rate");
  field("some.part", o.part, at_least(1), "part");
  field("some.batch", o.batch, at_least(1), "batch");
  field("some.mode", o.mode, "mode");
}

Config some_config() {
  Schema schema;
  add_keys<SomeOptions>(schema);
  return Config(schema);
}

std::vector<std::string> texts(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  for (const Candidate& one : make_candidates(parse_tries(words), some_config()))
    all.push_back(one.text());
  return all;
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    texts(words);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    return e.what();
  }
  return "";
}

TEST_CASE("FactorsAreMultiplesOfWhatTheRunWouldHave") {
  const std::vector<std::string> expected = {"some.gamma 0.1", "some.gamma 0.4", "some.gamma 1.6"};
  CHECK(texts({"some.gamma=auto*{0.25,1,4}"}) == expected);
  // As a shell that expands braces passes it on.
  CHECK(texts({"some.gamma=auto*0.25", "some.gamma=auto*1", "some.gamma=auto*4"}) == expected);
  CHECK(texts({"some.gamma=auto,2*2"}) ==
        std::vector<std::string>{"some.gamma 0.4", "some.gamma 4"});
  CHECK(texts({"some.batch=auto*{1,2}"}) ==
        std::vector<std::string>{"some.batch 16", "some.batch 32"});
}

TEST_CASE("ARampIsMultipliedWhole") {
  const std::vector<Candidate> both =
      make_candidates(parse_tries({"G.adam.lr=auto*{1,2}"}), some_config());
  REQUIRE(both.size() == 2);
  const std::string value = both[1].sets.front().substr(10);
  const auto ramp = Value<Scheduled>::from_text(value);
  REQUIRE(ramp);
  CHECK(*ramp == Scheduled(0.004, 0.002, {100'000}, RampShape::kLinear));
}

TEST_CASE("ARampWithCommasIsOneValue") {
  CHECK(texts({R"(G.adam.lr=0.1,{"from": 0.1, "to": 0.2, "kimg": 3})"}).size() == 2);
}

TEST_CASE("EveryCombinationRacesUnderANameOfItsOwn") {
  const std::vector<Candidate> all =
      make_candidates(parse_tries({"some.gamma=1,2", "some.mode=off,ada"}), some_config());
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "1-gamma-1-mode-off");
  CHECK(all[1].sets == std::vector<std::string>{"some.gamma=1", "some.mode=ada"});
  CHECK(all[3].name == "4-gamma-2-mode-ada");
  CHECK(make_candidates(parse_tries({"G.adam.lr=0.1,0.2"}), some_config())[0].name == "1-G.lr-0.1");
}

TEST_CASE("WhatCannotBeTriedIsRefusedByName") {
  const std::map<std::string, std::string> wrong = {
      {"some.gamma", "KEY=VALUE"},
      {"=1", "KEY=VALUE"},
      {"some.gamma=1,,2", "KEY=VALUE"},
      {"some.gamma=auto*{1,x}", "x is no factor"},
      {"some.gamma=auto*{1,2", "brackets"},
      {"some.gamma=1,200", "some.gamma = 200"},
      {"some.gamma=0.4,auto", "there twice"},
      {"some.gamma=auto", "nothing to choose from"},
      {"some.mode=auto*{1,2}", "off is no number"},
      {"some.part=auto*{1,2}", "known only when the run begins"},
      {"some.mode=ada,odd", "some.mode = odd"},
      {"some.lr=1,2", "some.lr"}};
  for (const auto& [word, part] : wrong) {
    CAPTURE(word);
    CHECK_THAT(refusal({word}), Catch::Contains(part));
  }
  std::string many = "some.batch=1";
  for (int i = 2; i < 100; ++i) many += "," + std::to_string(i);
  CHECK_THAT(refusal({many}), Catch::Contains("at most 64"));
}

}  // namespace
}  // namespace gantrain
