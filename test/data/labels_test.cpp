// SPDX-License-Identifier: Apache-2.0
#include "data/labels/labels.h"

#include <catch2/catch.hpp>

#include "support/pictures.h"

namespace gantrain {

using Numbers = std::vector<int64_t>;

namespace {

std::string json_error(std::string_view json) {
  return input_error([&] { labels_of_json(json, "dataset.json", {"a.png"}); });
}

}  // namespace

TEST_CASE("FoldersAreClassesInOrderOfTheirNames") {
  const Labels labels = labels_of_folders({"dogs/1.png", "cats/1.png", "dogs/deep/2.png"});
  CHECK(labels.classes == 2);
  CHECK(labels.of == Numbers{1, 0, 1});
}

TEST_CASE("FoldersAreNoClassesWherePicturesLieOutside") {
  CHECK(labels_of_folders({"1.png", "cats/1.png", "dogs/1.png"}).classes == 0);
  CHECK(labels_of_folders({"1.png", "2.png"}).classes == 0);
  CHECK(labels_of_folders({}).classes == 0);
}

TEST_CASE("FoldersThatHoldEverythingAreLookedThrough") {
  const Labels labels = labels_of_folders({"all/cat/1.png", "all/catfish/1.png"});
  CHECK(labels.of == Numbers{0, 1});
  CHECK(labels_of_folders({"all/1.png", "all/2.png"}).classes == 0);
  CHECK(labels_of_folders({"all/1.png"}).classes == 0);
}

TEST_CASE("JsonLabelsGoByPath") {
  const Labels labels = labels_of_json(R"({"labels": [["b.png", 4], ["x\\a.png", 0], ["c", 9]]})",
                                       "dataset.json",
                                       {"b.png", "x/a.png"});
  CHECK(labels.classes == 5);
  CHECK(labels.of == Numbers{4, 0});
}

TEST_CASE("JsonWithoutLabelsGivesNone") {
  CHECK(labels_of_json(R"({"labels": null})", "j", {"a/1.png", "b/1.png"}).classes == 0);
  CHECK(labels_of_json("{}", "j", {"a/1.png"}).of.empty());
}

TEST_CASE("JsonThatMakesNoSenseIsNamed") {
  CHECK(json_error("{") == "dataset.json: not a JSON object");
  CHECK(json_error("[]") == "dataset.json: not a JSON object");
  CHECK(json_error(R"({"labels": 3})").find("must be null or a list") != std::string::npos);
  CHECK(json_error(R"({"labels": ["a.png"]})").find("must be [\"path\", class]") !=
        std::string::npos);
  CHECK(json_error(R"({"labels": [["a.png", -1]]})").find("the class of a.png") !=
        std::string::npos);
  CHECK(json_error(R"({"labels": [["a.png", 0.5]]})").find("the class of a.png") !=
        std::string::npos);
  CHECK(json_error(R"({"labels": [["b.png", 0]]})") ==
        "dataset.json: no label for a.png; complete it, or --set data.labels=none does without");
}

TEST_CASE("TwoLabelsOfOneFileAreFoundHoweverItIsWritten") {
  const auto error_of = [](const std::string& path) {
    return input_error([&] {
      labels_of_rows({{path, "x"}, {"d/a.png", "y"}}, LabelColumns{}, "list.csv", {"d/a.png"});
    });
  };
  for (const char* path : {"d/a.png", "./d/a.png", "d\\a.png", ".\\d\\a.png"}) {
    CAPTURE(path);
    CHECK(error_of(path) == "list.csv: two labels for d/a.png: x and y");
  }
}

TEST_CASE("AFoundListCountsWhereItNamesAPicture") {
  const std::vector<std::string> pictures = {"d/a.png"};
  const auto rows = [&](const std::string& path) {
    return found_labels_of_rows({{path, "x"}}, LabelColumns{}, "list.csv", pictures);
  };
  for (const char* path : {"d/a.png", "d/a", "a.png", "a"}) CHECK(rows(path).has_value());
  CHECK_FALSE(rows("b.png").has_value());
  const auto json = [&](const char* text) { return found_labels_of_json(text, "j", pictures); };
  for (const char* text : {"[]", "3", "{}", R"({"labels": 3})", R"({"labels": [["b.png", 0]]})"}) {
    CAPTURE(text);
    CHECK_FALSE(json(text).has_value());
  }
  CHECK(json(R"({"labels": [["a.png", 1]]})")->of == Numbers{1});
  CHECK(json(R"({"labels": null})")->classes == 0);
  CHECK(input_error([&] { json("{"); }).find("j: not JSON") == 0);
  CHECK(input_error([&] { json(R"({"labels": [["a.png", -1]]})"); }).find("class of a.png") !=
        std::string::npos);
}

}  // namespace gantrain
