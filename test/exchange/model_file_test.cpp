// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "exchange/import.h"
#include "exchange/toy_recipe_table.h"
#include "support/temporary_folder.h"
#include "util/error.h"

using namespace gantrain;

namespace {

const at::Tensor& weight() {
  static const at::Tensor tensor = torch::tensor({3.0F, 4.0F});
  return tensor;
}

at::Tensor weight_of(const LoadedModel& model) {
  return model.generator->network()->named_parameters()["weight"].detach();
}

// Loads a file with that metadata and returns what is said of it, or "" if it is loaded.
std::string refusal(const std::map<std::string, std::string>& metadata,
                    const char* name = "weight") {
  const TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{name, weight()}}, metadata);
  try {
    load_generator(folder / "model.safetensors", toy_recipe_table());
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("AModelThatWasSavedIsLoaded") {
  const TemporaryFolder folder;
  save_model(folder / "model.safetensors", {{{"recipe", "plain"}}, {{"weight", weight()}}});
  const LoadedModel model = load_generator(folder / "model.safetensors", toy_recipe_table());
  CHECK(weight_of(model).equal(weight()));
  CHECK_FALSE(model.level);
  CHECK_FALSE(model.alpha);
}

TEST_CASE("AFileOfGrowingNetworksHasItsStage") {
  const TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors",
                   {{"weight", weight()}},
                   {{"gantrain.level", "16"}, {"gantrain.alpha", "0.25"}});
  const LoadedModel model = load_generator(folder / "model.safetensors", toy_recipe_table());
  CHECK(model.level == 16);
  CHECK(model.alpha == 0.25);
}

TEST_CASE("AFileWithoutMetadataIsOfTheRecipeThatRecognisesIt") {
  CHECK(refusal({}).empty());
  CHECK_THAT(refusal({}, "other"), Catch::Contains("no generator of a known recipe"));
}

TEST_CASE("WeightsThatAreNotFiniteAreRefused") {
  const TemporaryFolder folder;
  at::Tensor broken = weight().clone();
  broken.flatten()[0] = std::numeric_limits<double>::infinity();
  save_safetensors(folder / "model.safetensors", {{"weight", broken}}, {});
  CHECK_THROWS_WITH(load_generator(folder / "model.safetensors", toy_recipe_table()),
                    Catch::Contains("model.safetensors: tensor weight: 1 of"));
}

TEST_CASE("WhatTheMetadataSaysWronglyIsNamed") {
  CHECK_THAT(refusal({{"gantrain.model", R"({"recipe": "newer"})"}}),
             Catch::Contains("recipe newer is not known"));
  CHECK_THAT(refusal({{"gantrain.model", "{"}}),
             Catch::Contains("model.safetensors (gantrain.model)"));
  CHECK_THAT(refusal({{"gantrain.level", R"("high")"}}),
             Catch::Contains("gantrain.level = \"high\": no number"));
}
