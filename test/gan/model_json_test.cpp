// SPDX-License-Identifier: Apache-2.0
#include "gan/model_json.h"

#include "gan/class_table.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;
using Labels = std::vector<int64_t>;

namespace {

struct Sizes {
  int64_t width = 5;
  bool deep = false;
};

template <class Field>
void fields(Sizes& s, Field&& field) {
  field("width", s.width, between(1, 9), "feature maps");
  field("deep", s.deep, "more layers");
}

}  // namespace

TEST_CASE("AModelsConfigurationComesBackAsItWas") {
  const Json model = model_json("toy", Sizes{7, true});
  CHECK(model == Json{{"recipe", "toy"}, {"width", 7}, {"deep", true}});
  Sizes read;
  read_model(model, "file", read);
  CHECK(read.width == 7);
  CHECK(read.deep);
  Sizes kept{3, true};
  read_model({{"width", nullptr}, {"unknown", 1}}, "file", kept);
  CHECK(kept.width == 3);
  read_model(Json(), "file", kept);
  CHECK(kept.deep);
  CHECK_THROWS_WITH(read_model({{"width", 12}}, "file", kept), Catch::Contains("file: width = 12"));
}

TEST_CASE("AGeneratorsOwnArgumentsComeBeforeThoseOfBothNetworks") {
  TensorFile file;
  CHECK(official_arguments(file, "file").empty());
  file.metadata["config"] = R"({"resolution": 16, "fmap_max": 1, "G": {"fmap_max": 32}})";
  const Json all = official_arguments(file, "file");
  CHECK(all["resolution"] == 16);
  CHECK(all["fmap_max"] == 32);
  for (const char* broken : {"{", "[1]"}) {
    file.metadata["config"] = broken;
    CHECK_THROWS_WITH(official_arguments(file, "FILE"), Catch::Contains("FILE"));
  }
}

namespace {

enum class Kind { kPlain, kFancy };
constexpr std::array<std::string_view, 2> names(Kind) { return {"plain", "fancy"}; }

struct Nested {
  int64_t z_dim = 512;
  int64_t layers = 8;
  std::optional<double> clamp;
  Kind kind = Kind::kPlain;
};

template <class Field>
void fields(Nested& s, Field&& field) {
  field("z_dim", s.z_dim, between(1, 1024), "length of z");
  field("mapping.layers", s.layers, between(1, 64), "layers");
  field("synthesis.clamp", s.clamp, between(1e-9, 1e30), "bound of activations");
  field("synthesis.kind", s.kind, "of the blocks");
}

Nested read(const std::string& json) {
  Nested shape;
  read_model(Json::parse(json), "FILE", shape);
  return shape;
}

}  // namespace

TEST_CASE("FieldsWithADotStandInAGroupOrBesideIt") {
  Nested shape{7, 3, 0.5, Kind::kFancy};
  const Json model = model_json("toy", shape);
  CHECK(
      model.dump() ==
      R"({"recipe":"toy","z_dim":7,"mapping":{"layers":3},"synthesis":{"clamp":0.5,"kind":"fancy"}})");
  const Nested same = read(model.dump());
  CHECK(same.z_dim == 7);
  CHECK(same.layers == 3);
  CHECK(same.clamp == 0.5);
  CHECK(same.kind == Kind::kFancy);
  shape.clamp.reset();
  CHECK(model_json("toy", shape)["synthesis"]["clamp"].is_null());
  CHECK(read(R"({"layers": 5, "mapping": null})").layers == 5);
  CHECK(read(R"({"layers": 5, "mapping": {"layers": 6}})").layers == 6);
  CHECK(read(R"({"layers": 5, "mapping": {"layers": null, "others": []}})").layers == 5);
}

TEST_CASE("AFieldOfAnotherTypeOrOutOfRangeIsRefusedByName") {
  using Catch::Contains;
  CHECK_THROWS_WITH(read(R"({"z_dim": "7"})"), Contains("FILE: z_dim = \"7\""));
  CHECK_THROWS_WITH(read(R"({"z_dim": 7.5})"), Contains("z_dim = 7.5"));
  CHECK_THROWS_WITH(read(R"({"z_dim": true})"), Contains("z_dim = true"));
  CHECK_THROWS_WITH(read(R"({"z_dim": 18446744073709551615})"), Contains("z_dim"));
  CHECK_THROWS_WITH(read(R"({"mapping": {"layers": 65}})"), Contains("FILE: mapping.layers = 65"));
  CHECK_THROWS_WITH(read(R"({"mapping": 3})"), Contains("FILE: mapping = 3"));
  CHECK_THROWS_WITH(read(R"({"kind": "odd"})"), Contains("plain|fancy"));
  CHECK_THROWS_WITH(read("[1]"), Contains("FILE"));
  CHECK_THROWS_AS(read("[1]"), UserError);
}

namespace {
const ClassTable kShapes = {{"circle", 5}, {"square", 7}, {"triangle", 2}, {"7", 1}, {"a,b", 1}};
}

TEST_CASE("ClassesAreNamedNumberedAndRanged", "[gan]") {
  CHECK(parse_classes("circle", 5, kShapes) == Labels{0});
  CHECK(parse_classes("0-2", 5, kShapes) == Labels{0, 1, 2});
  CHECK(parse_classes("all", 5, kShapes) == Labels{0, 1, 2, 3, 4});
  CHECK(parse_classes("triangle, 1,0-1", 5, kShapes) == Labels{2, 1, 0, 1});
}

namespace {

ClassTable numbers() {
  ClassTable table = {{"red", 3}, {"size", 9}, {"age", 9}};
  table.ranges = {{.least = 0, .mean = 0.3, .most = 1, .yes_or_no = true},
                  {.least = 0, .mean = 0.5, .most = 1},
                  {.least = 20, .mean = 40, .most = 90}};
  table.examples = {{1, 0.25f, 33}, {0, 0.75f, 47}};
  return table;
}

}  // namespace

TEST_CASE("ATableOfNumbersIsWrittenAndRead", "[gan]") {
  const Json json = to_json(numbers());
  const ClassTable read = classes_from_json(json, "FILE");
  CHECK(read.vectors());
  CHECK(read.size() == 3);
  CHECK(read[1].name == "size");
  CHECK(read.ranges[0].yes_or_no);
  CHECK(read.ranges[2].mean == 40);
  CHECK(read.examples == numbers().examples);
  CHECK(to_json(read) == json);
  CHECK(to_json(kShapes).is_array());  // classes have the form that they had
  CHECK_FALSE(classes_from_json(to_json(kShapes), "FILE").vectors());
  using Catch::Contains;
  const auto broken = [&](const char* place, const Json& value) {
    Json other = json;
    other[Json::json_pointer(place)] = value;
    classes_from_json(other, "FILE");
  };
  CHECK_THROWS_WITH(broken("/attributes", 3), Contains("FILE"));
  CHECK_THROWS_WITH(broken("/attributes/1/mean", "x"),
                    Contains("FILE: an attribute has no number"));
  CHECK_THROWS_WITH(broken("/examples/0", Json::array({1})), Contains("FILE: an example"));
  CHECK_THROWS_WITH(broken("/examples/0/1", "x"), Contains("FILE: an example"));
}

TEST_CASE("NumbersByNameMakeAVectorAndOthersAreAsUsual", "[gan]") {
  using Vector = std::vector<float>;
  const auto vector = [](const std::string& text) {
    return vector_of_text("--label", text, 3, numbers());
  };
  CHECK(vector("red=1") == Vector{1, 0.5f, 40});
  CHECK(vector("age=-1e2, size = 0.25") == Vector{0, 0.25f, -100});
  CHECK(vector("2=7") == Vector{0, 0.5f, 7});
  CHECK(vector_of_text("--label", "1=2", 3, {}) == Vector{0, 2, 0});
  CHECK(text_of_vector({1, 0.5f, 40}, numbers()) == "red=1,size=0.5,age=40");
  using Catch::Contains;
  CHECK_THROWS_WITH(vector("sise=1"), Contains("sise") && Contains("did you mean size"));
  CHECK_THROWS_WITH(vector("3=1"), Contains("a place from 0 to 2"));
  CHECK_THROWS_WITH(vector("red"), Contains("numbers by name are expected"));
  CHECK_THROWS_WITH(vector("red=nan"), Contains("red is nan"));
  CHECK_THROWS_WITH(vector("red=1e300"), Contains("red is"));
}

TEST_CASE("AClassNamedLikeANumberOrWithACommaIsFoundByItsName", "[gan]") {
  CHECK(parse_classes("7", 5, kShapes) == Labels{3});
  CHECK(parse_classes("a,b", 5, kShapes) == Labels{4});
}

TEST_CASE("WhereAllNamesAreWholeNumbersRangesGoByThem", "[gan]") {
  const ClassTable table = {{"1", 5}, {"10", 7}, {"2", 2}, {"03", 2}};
  CHECK(parse_classes("1-3", 4, table) == Labels{0, 2, 3});
  CHECK(parse_classes("2-10", 4, table) == Labels{2, 3, 1});
  CHECK(parse_classes("10,1-2,3", 4, table) == Labels{1, 0, 2, 3});
  CHECK(parse_classes("all", 4, table) == Labels{0, 1, 2, 3});
  for (const char* text : {"0", "0-2", "2-4", "3-1", "11"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(
        parse_classes(text, 4, table),
        Catch::Contains("is no class of this model: a name, a range of names like 1-10, or all"));
  }
  // Places, where these are the names, and where some names are words.
  const ClassTable places = {{"0", 5}, {"1", 7}, {"2", 2}};
  CHECK(parse_classes("0-1", 3, places) == Labels{0, 1});
  CHECK_THROWS_WITH(parse_classes("3", 3, places), Catch::Contains("a number from 0 to 2"));
  CHECK(parse_classes("0-1", 3, {{"1", 5}, {"2", 7}, {"x", 2}}) == Labels{0, 1});
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
