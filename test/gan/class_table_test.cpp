// SPDX-License-Identifier: Apache-2.0
#include "gan/class_table.h"

#include <catch2/catch.hpp>

#include "util/error.h"

using namespace gantrain;
using Labels = std::vector<int64_t>;

namespace {
const ClassTable kShapes = {{"circle", 5}, {"square", 7}, {"triangle", 2}, {"7", 1}, {"a,b", 1}};
}

TEST_CASE("ClassesAreNamedNumberedAndRanged", "[gan]") {
  CHECK(parse_classes("circle", 5, kShapes) == Labels{0});
  CHECK(parse_classes("0-2", 5, kShapes) == Labels{0, 1, 2});
  CHECK(parse_classes("all", 5, kShapes) == Labels{0, 1, 2, 3, 4});
  CHECK(parse_classes("triangle, 1,0-1", 5, kShapes) == Labels{2, 1, 0, 1});
}

TEST_CASE("AClassNamedLikeANumberOrWithACommaIsFoundByItsName", "[gan]") {
  CHECK(parse_classes("7", 5, kShapes) == Labels{3});
  CHECK(parse_classes("a,b", 5, kShapes) == Labels{4});
}

TEST_CASE("WithoutATableNumbersAreTakenUpToTheModelsClasses", "[gan]") {
  CHECK(parse_classes("9", 10, {}) == Labels{9});
  CHECK_THROWS_AS(parse_classes("10", 10, {}), UserError);
}

TEST_CASE("AnUnknownClassIsRefusedWithTheNearestName", "[gan]") {
  CHECK_THROWS_WITH(parse_classes("circel", 5, kShapes), Catch::Contains("did you mean circle"));
  CHECK_THROWS_WITH(parse_classes("5", 5, kShapes), Catch::Contains("from 0 to 4"));
  for (const char* text : {"", "2-1", "-1", "0-9", "circle,", "1e0"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_classes(text, 5, kShapes), UserError);
  }
}

TEST_CASE("AClassTableIsReadBackFromItsJson", "[gan]") {
  CHECK((classes_from_json(to_json(kShapes), "x") == kShapes));
  for (const char* text : {"{}", "[1]", R"([{"name": 1, "pictures": 2}])", R"([{"name": "a"}])"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(classes_from_json(Json::parse(text), "x"), UserError);
  }
}
