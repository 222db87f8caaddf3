// SPDX-License-Identifier: Apache-2.0
#include "gan/model_json.h"

#include <catch2/catch.hpp>

using namespace gantrain;

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
