// SPDX-License-Identifier: Apache-2.0
#include "config/value.h"

#include "support/catch.h"

using namespace gantrain;

namespace {
enum class Shade { kRed, kGreen };
constexpr std::array<std::string_view, 2> names(Shade) { return {"red", "green"}; }
}  // namespace

TEST_CASE("ABareNumberIsKimgAndWithAUnitItCountsPictures") {
  CHECK(Value<Kimg>::from_text("25000")->images == 25'000'000);
  CHECK(Value<Kimg>::from_text("25M")->images == 25'000'000);
  CHECK(Value<Kimg>::from_text("200k")->images == 200'000);
  CHECK(Value<Kimg>::from_text("0.5")->images == 500);
  CHECK_FALSE(Value<Kimg>::from_text("many"));
  CHECK_FALSE(Value<Kimg>::from_text("-1"));
  CHECK(Value<Kimg>::to_json({500}).dump() == "0.5");
  CHECK(Value<Kimg>::to_json({200000}).dump() == "200");
}

TEST_CASE("SwitchesHaveManyWords") {
  for (const char* yes : {"on", "true", "YES", "1"}) CHECK(Value<bool>::from_text(yes) == true);
  for (const char* no : {"off", "False", "no", "0"}) CHECK(Value<bool>::from_text(no) == false);
  CHECK_FALSE(Value<bool>::from_text("maybe"));
}

TEST_CASE("EnumsAreTheirNames") {
  CHECK(Value<Shade>::type() == "red|green");
  CHECK(Value<Shade>::from_text("green") == Shade::kGreen);
  CHECK_FALSE(Value<Shade>::from_text("blue"));
  CHECK(Value<Shade>::to_json(Shade::kRed) == "red");
}

TEST_CASE("AnOptionalMayBeAuto") {
  CHECK_FALSE(Value<std::optional<int64_t>>::from_text("auto")->has_value());
  CHECK(Value<std::optional<int64_t>>::from_text("8")->value() == 8);
  CHECK_FALSE(Value<std::optional<int64_t>>::from_text("eight"));
  CHECK(Value<std::optional<int64_t>>::to_json(std::nullopt) == "auto");
}

TEST_CASE("NotANumberIsNoNumber") {
  CHECK_FALSE(Value<double>::from_text("nan"));
  CHECK_FALSE(Value<double>::from_text("inf"));
  CHECK(Value<double>::to_json(2e-4).dump() == "0.0002");
}

TEST_CASE("ASizeIsANumberWhereItIsSquareElseText") {
  CHECK(Value<Size>::to_json({64, 64}) == 64);
  CHECK(Value<Size>::to_json({256, 128}) == "256x128");
  for (const char* text : {"256x128", "256X128"}) {
    const auto size = Value<Size>::from_text(text);
    REQUIRE(size);
    CHECK(*size == Size{256, 128});
  }
  CHECK(Value<Size>::from_text(text_of(64)) == square_of(64));
  CHECK_FALSE(Value<Size>::from_text("256x"));
}

TEST_CASE("JsonOfAStrangerIsNeitherDeepNorEndless") {
  const auto is_read = [](const std::string& text) {
    const bool sorted = !parse_foreign<nlohmann::json>(text).is_discarded();
    return std::pair(!parse_foreign(text).is_discarded(), sorted);
  };
  const std::pair all(true, true), none(false, false);
  const auto nested = [](size_t depth, const std::string& before = "") {
    return before + std::string(depth, '[') + std::string(depth, ']');
  };
  CHECK(is_read(nested(64)) == all);
  CHECK(is_read(nested(65)) == none);
  CHECK(is_read(nested(300'000)) == none);
  CHECK(is_read(std::string(300'000, '[')) == none);
  CHECK(is_read("[\"" + std::string(100, '[') + "\\\"[[\"]") == all);
  // Comments end where the parser sees them end.
  CHECK(is_read("// [[ \"\n[1]") == all);
  CHECK(is_read("/* \" [[ */ [/*/ \" */ 1]") == all);
  for (const char* comment : {"// \"\r", "// \"\n", "/* \" */", "/*/ \" */", "/***/"}) {
    CAPTURE(comment);
    CHECK(is_read(nested(65, comment)) == none);
    CHECK(is_read(nested(64, comment)) == all);
  }
  std::string names, values;
  for (int i = 0; i < 2000; ++i) names += "\"" + std::to_string(i) + "\": 1, ";
  CHECK(is_read("{" + names + "\"last\": 1}") == std::pair(false, true));
  for (int i = 0; i < 1'100'000; ++i) values += "1,";
  CHECK(is_read("[" + values + "1]") == none);
  CHECK(is_read("[1e999]") == none);
  CHECK(is_read("{\"a\": 1} x") == none);
}
