// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "official.h"
#include "recipes/pggan/recipe.h"
#include "util/error.h"

using namespace gantrain;

TEST_CASE("OfficialWeightsComeBackAsTheyWere") {
  for (const char* name : {"pggan16_params", "pggan16_unfused_params"}) {
    const TensorFile file = fixture(name);
    const TensorMap back = pggan::export_official(pggan::import_official(file, name).tensors);
    REQUIRE(back.size() == file.tensors.size());
    for (const auto& [key, value] : file.tensors) {
      CAPTURE(name, key);
      CHECK(torch::equal(back.at(key), value));
    }
  }
}

TEST_CASE("TheModelSaysTheConfigurationOfTheHeader") {
  const ModelContent model =
      pggan::import_official(fixture("pggan16_unfused_params"), "pggan16_unfused_params");
  CHECK(model.model["recipe"] == "pggan");
  CHECK(model.model["resolution"] == 16);
  CHECK(model.model["latent_size"] == 16);
  CHECK(model.model["fmap_base"] == 64);
  CHECK(model.model["fmap_max"] == 16);
  CHECK(model.model["fused_scale"] == false);
  CHECK(model.tensors.count("16x16.Conv0.weight") == 1);
  CHECK(model.tensors.count("D.16x16.Conv1.weight") == 1);
}

TEST_CASE("WithoutAHeaderSizesAreReadOffTheTensors") {
  TensorFile file = fixture("pggan16_params");
  file.metadata.clear();
  file.tensors["G/lod"] = torch::zeros({});  // official networks have it
  const ModelContent model = pggan::import_official(file, "file");
  CHECK(model.model["fmap_base"] == 128);
  CHECK(model.tensors.count("lod") == 0);
}

TEST_CASE("WhatDoesNotFitIsNamed") {
  const auto refused = [](const std::function<void(TensorFile&)>& change) {
    TensorFile file = fixture("pggan16_params");
    change(file);
    try {
      pggan::import_official(file, "FILE");
    } catch (const UserError& error) {
      CHECK(error.code() == Exit::kInput);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  using Catch::Contains;
  CHECK_THAT(refused([](TensorFile& f) { f.tensors.erase("G/8x8/Conv1/bias"); }),
             Contains("FILE: tensor 8x8.Conv1.bias is missing"));
  CHECK_THAT(refused([](TensorFile& f) { f.tensors["G/8x8/Conv1/bias"] = torch::ones({3}); }),
             Contains("8x8.Conv1.bias has shape [3], [32] is needed"));
  CHECK_THAT(refused([](TensorFile& f) { f.tensors["G/extra"] = torch::ones({3}); }),
             Contains("G/extra"));
  CHECK_THAT(refused([](TensorFile& f) { f.tensors["H/a"] = torch::ones({3}); }),
             Contains("H/a is no variable"));
  CHECK_THAT(refused([](TensorFile& f) { f.metadata["config"] = R"({"resolution": 12})"; }),
             Contains("resolution = 12"));
  CHECK_THAT(refused([](TensorFile& f) { f.metadata["config"] = R"({"label_size": 10})"; }),
             Contains("label_size = 10"));
  CHECK_THAT(refused([](TensorFile& f) { f.metadata["config"] = "{"; }), Contains("FILE (config)"));
}
