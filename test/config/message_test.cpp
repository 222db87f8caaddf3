// SPDX-License-Identifier: Apache-2.0
#include "config/schema.h"
#include "support/catch.h"

using namespace gantrain;

namespace {

enum class Colour { kRed, kGreen };
constexpr std::array<std::string_view, 2> names(Colour) { return {"red", "green"}; }

struct Net {
  std::string name;
  std::vector<int64_t> sizes;
};

template <class Field>
void fields(Net& o, Field&& field) {
  field("name", o.name, "what it is called");
  field("sizes", o.sizes, "pixels");
}

struct Request {
  bool json = false;
  int64_t seed = 0;
  int port = 0;
  double fps = 30;
  Colour colour = Colour::kRed;
  Kimg length{0};
  std::optional<int64_t> label;
  std::optional<Net> best;
  std::vector<std::string> words;
  std::vector<Net> nets;
  Json config;
};

template <class Field>
void fields(Request& o, Field&& field) {
  field("json", o.json);
  field("seed", o.seed, at_least(0), "a check and a help text, as options have them");
  field("port", o.port);
  field("fps", o.fps, between(1, 240), "frames a second");
  field("colour", o.colour);
  field("length", o.length);
  field("class", o.label);
  field("best", o.best);
  field("words", o.words);
  field("nets", o.nets);
  field("config", o.config);
}

Request full_request() {
  Request request;
  request.json = true;
  request.seed = 9007199254740993;  // no double is this
  request.port = -1;
  request.fps = 0.1 + 0.2;
  request.colour = Colour::kGreen;
  request.length = {12'345};
  request.label = 7;
  request.best = Net{"best", {4}};
  request.words = {"auto", "", "3"};
  request.nets = {{"a", {8, 16}}, {"b", {}}};
  request.config = {{"values", {{"train.batch", 8}}}};
  return request;
}

std::string reason(const Json& message) {
  try {
    message_from<Request>(message);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("AMessageComesBackAsItWas") {
  const Request sent = full_request();
  const Json message = Json::parse(message_of(sent).dump());
  const auto got = message_from<Request>(message);
  CHECK(got.json == sent.json);
  CHECK(got.seed == sent.seed);
  CHECK(got.port == sent.port);
  CHECK(got.fps == sent.fps);
  CHECK(got.colour == sent.colour);
  CHECK(got.length.images == sent.length.images);
  CHECK(got.label == sent.label);
  REQUIRE(got.best);
  CHECK(got.best->name == "best");
  CHECK(got.best->sizes == std::vector<int64_t>{4});
  CHECK(got.words == sent.words);
  REQUIRE(got.nets.size() == 2);
  CHECK(got.nets[0].sizes == sent.nets[0].sizes);
  CHECK(got.nets[1].name == "b");
  CHECK(got.nets[1].sizes.empty());
  CHECK(got.config == sent.config);
  CHECK(message_of(got) == message_of(sent));
}

TEST_CASE("WhatAnOptionalDoesNotHoldIsNull") {
  const Json message = message_of(Request());
  CHECK(message.at("class").is_null());
  CHECK(message.at("best").is_null());
  const auto got = message_from<Request>(message);
  CHECK_FALSE(got.label);
  CHECK_FALSE(got.best);
}

TEST_CASE("KeysStandInTheOrderOfTheStruct") {
  CHECK(message_of(Net{"a", {1, 2}}).dump() == R"({"name":"a","sizes":[1,2]})");
}

TEST_CASE("AMessageNamesTheKeyThatIsMissing") {
  const Json whole = message_of(full_request());
  for (const auto& [key, value] : whole.items()) {
    Json message = whole;
    message.erase(key);
    CHECK(reason(message) == "message: " + key + ": missing");
  }
  Json message = whole;
  message["nets"][1].erase("name");
  CHECK(reason(message) == "message: nets[1].name: missing");
}

TEST_CASE("AMessageNamesTheKeyThatIsOfAnotherType") {
  const std::vector<std::pair<std::string, Json>> wrong = {{"json", 1},
                                                           {"seed", 0.5},
                                                           {"seed", 18446744073709551615ULL},
                                                           {"port", 4294967296},
                                                           {"fps", "30"},
                                                           {"colour", "blue"},
                                                           {"length", "many"},
                                                           {"class", "7"},
                                                           {"best", Json::array()},
                                                           {"words", "auto"},
                                                           {"nets", {{"name", "a"}}}};
  for (const auto& [key, value] : wrong) {
    INFO(key << " = " << value.dump());
    Json message = message_of(full_request());
    message[key] = value;
    CHECK(reason(message).rfind("message: " + key + ": ", 0) == 0);
  }
  Json message = message_of(full_request());
  message["words"][1] = 3;
  CHECK(reason(message).rfind("message: words[1]: ", 0) == 0);
}
