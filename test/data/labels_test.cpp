// SPDX-License-Identifier: Apache-2.0
#include "data/labels.h"

#include <catch2/catch.hpp>

#include "image/pictures.h"

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
  CHECK(json_error(R"({"labels": [["b.png", 0]]})") == "dataset.json: no label for a.png");
}

}  // namespace gantrain
