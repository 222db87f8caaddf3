// SPDX-License-Identifier: Apache-2.0
#include "support/catch.h"
#include "train/run/training_data.h"

using namespace gantrain;

namespace {

ClassTable numbered(int64_t count) {
  ClassTable table;
  for (int64_t i = 0; i < count; ++i) table.push_back({"name" + std::to_string(i), 10 + i});
  return table;
}

}  // namespace

TEST_CASE("TheTableCountsEachPictureOnce") {
  DataOptions options;
  options.synth_size = 57;
  const auto shapes = open_dataset(options);
  const ClassTable table = class_table_of(*shapes);
  REQUIRE(static_cast<int64_t>(table.size()) == shapes->classes());
  int64_t pictures = 0;
  for (const ClassRow& row : table) pictures += row.pictures;
  CHECK(pictures == 57);
  CHECK(table[3].name == shapes->class_name(3));
}

TEST_CASE("UpToTwentyClassesAreListedAndMoreAreSummedUp") {
  const std::vector<std::string> few = class_lines(numbered(20));
  REQUIRE(few.size() == 20);
  CHECK_THAT(few[19],
             Catch::Contains("19") && Catch::Contains("name19") && Catch::Contains("29 pictures"));
  const std::vector<std::string> many = class_lines(numbered(100));
  REQUIRE(many.size() == 20);
  CHECK_THAT(many[18], Catch::Contains("name18"));
  CHECK(many[19] == "... and 81 more classes, with 29 to 109 pictures each");
  CHECK(class_lines({}).empty());
}

TEST_CASE("ClassesWithoutPicturesAndWithOneAreWarnedOf") {
  CHECK(class_warnings(numbered(5)).empty());
  CHECK(class_warnings({}).empty());
  const ClassTable odd = {{"a", 9}, {"b", 0}, {"c", 1}, {"d", 0}};
  const std::vector<std::string> lines = class_warnings(odd);
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::StartsWith("2 of 4 classes have no picture (b, d)"));
  CHECK_THAT(lines[1], Catch::StartsWith("1 of 4 classes has one picture in all (c)"));
  ClassTable many(900);
  for (size_t i = 0; i < many.size(); ++i) many[i].name = std::to_string(i);
  CHECK_THAT(class_warnings(many)[0], Catch::Contains("900 of 900") && Catch::Contains("4, ...)"));
}

TEST_CASE("OtherClassesAreNamed") {
  const ClassTable saved = {{"circle", 5}, {"square", 6}};
  CHECK(class_difference(saved, saved).empty());
  CHECK(class_difference(saved, {{"circle", 50}, {"square", 1}}).empty());
  CHECK(class_difference({}, saved).empty());
  CHECK(class_difference(saved, {{"circle", 5}, {"star", 6}}) ==
        "class 1 is \"star\" and was \"square\"");
  CHECK(class_difference(saved, {{"circle", 5}}) == "now 1 class, before 2: \"square\" is missing");
  // Earlier versions lost the names of lists; the numbers of classes are the same.
  CHECK(class_difference({{"0", 5}, {"1", 6}}, saved).empty());
  CHECK_FALSE(class_difference({{"0", 5}, {"2", 6}}, saved).empty());
  CHECK_FALSE(class_difference(saved, {{"0", 5}, {"1", 6}}).empty());
  CHECK_FALSE(class_difference({{"0", 5}}, saved).empty());
  CHECK(class_difference(saved, {{"circle", 5}, {"square", 6}, {"star", 1}}) ==
        "now 3 classes, before 2: \"star\" is new");
}
