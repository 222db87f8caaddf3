// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "draw/painter.h"
#include "support/toy_generator.h"
#include "util/error.h"

namespace gantrain {
namespace {

using Labels = std::vector<int64_t>;

ModelRequest asked(const std::string& classes) {
  ModelRequest request;
  request.model = "model.safetensors";
  request.classes = classes;
  return request;
}

Labels labels(const std::string& classes, const ClassTable& table = {}) {
  return choose_classes(ToyGenerator({.classes = 5}), asked(classes), table).labels;
}

std::string refusal(int64_t classes, const std::string& text, bool styles = false) {
  try {
    choose_classes(ToyGenerator({.classes = classes}), asked(text), {}, styles);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    return e.what();
  }
  return "";
}

const ClassTable kNames = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}};

}  // namespace

TEST_CASE("ClassesAreNamesNumbersRangesOrAll") {
  CHECK(labels("3") == Labels{3});
  CHECK(labels("0-2,1,4") == Labels{0, 1, 2, 4});
  CHECK(labels("all") == Labels{0, 1, 2, 3, 4});
  CHECK(labels("") == Labels{0, 1, 2, 3, 4});
  CHECK(labels("d,b", kNames) == Labels{3, 1});
  CHECK(choose_classes(ToyGenerator({.classes = 5}), asked("2"), {}).asked);
  CHECK(!choose_classes(ToyGenerator({.classes = 5}), asked(""), {}).asked);
}

TEST_CASE("NamesOfOtherClassesAreNotTaken") {
  ClassTable longer = kNames;
  longer.push_back({"f", 1});
  CHECK_THROWS_AS(labels("f", longer), UserError);
  CHECK_THROWS_AS(labels("a", longer), UserError);
}

TEST_CASE("ClassesThatAModelLacksAreRefused") {
  CHECK(refusal(5, "5").find("0 to 4") != std::string::npos);
  CHECK(refusal(5, "-1").find("--class -1") != std::string::npos);
  CHECK(refusal(0, "1").find("unconditional") != std::string::npos);
  CHECK(refusal(5, "1", true).find("leave it out") != std::string::npos);
  CHECK(refusal(0, "").empty());
  CHECK(refusal(5, "", true).empty());
}

TEST_CASE("EveryRowComesInEveryClassSortedByClass") {
  const LabelledRows rows(2, {{3, 1}, true}, 100);
  REQUIRE(rows.size() == 4);
  CHECK((rows[0].row == 0 && rows[0].label == 3));
  CHECK((rows[1].row == 1 && rows[1].label == 3));
  CHECK((rows[3].row == 1 && rows[3].label == 1));
  REQUIRE(LabelledRows(2, {}, 100).size() == 2);
  CHECK(!LabelledRows(2, {}, 100)[1].label);
}

TEST_CASE("ClassesTakeTurnsWhereNobodyAskedForSoMany") {
  const LabelledRows rows(3, {{0, 1}, false}, 5);
  REQUIRE(rows.size() == 3);
  CHECK((rows[0].row == 0 && rows[0].label == 0));
  CHECK((rows[1].row == 2 && rows[1].label == 0));
  CHECK((rows[2].row == 1 && rows[2].label == 1));
  CHECK(LabelledRows(3, {{0, 1}, true}, 5).size() == 6);
  CHECK(LabelledRows(3, {{0, 1}, false}, 6).size() == 6);
}

TEST_CASE("RowsThatTakeTurnsAreSortedByClassAndEachComesOnce") {
  for (const int64_t count : {2, 4, 5, 6, 7}) {
    const LabelledRows rows(count, {{4, 5, 6, 7}, false}, 1);
    REQUIRE(rows.size() == count);
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) {
      CHECK(rows[i].label == 4 + rows[i].row % 4);
      if (i > 0) CHECK(rows[i].label >= rows[i - 1].label);
      seen.push_back(rows[i].row);
    }
    std::sort(seen.begin(), seen.end());
    for (int64_t i = 0; i < count; ++i) CHECK(seen[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("AMessageNamesTheClasses") {
  CHECK(class_line(LabelledRows(1, {{0, 2}, true}, 9), kNames) == "classes a, c");
  CHECK(class_line(LabelledRows(1, {{2}, true}, 9), kNames).empty());
  CHECK(class_line(LabelledRows(1, {{0, 1, 2, 3, 4, 5, 6, 7}, true}, 9), {}) ==
        "classes 0, 1, 2, 3, 4, 5 and 2 more");
}

}  // namespace gantrain
