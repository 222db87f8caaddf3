// SPDX-License-Identifier: Apache-2.0
#include "exchange/import.h"

#include "exchange/export.h"
#include "exchange/toy_recipe_table.h"
#include "recipes/dcgan/recipe.h"
#include "recipes/pggan/recipe.h"
#include "recipes/projected/recipe.h"
#include "recipes/r3gan/recipe.h"
#include "recipes/stylegan1/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

using namespace gantrain;

namespace {

// What is said of a file that is not imported, or "".
std::string import_refusal(const std::filesystem::path& file,
                           const std::string& recipe = "",
                           const RecipeTable& recipes = toy_recipe_table()) {
  return input_error([&] { import_weights(file.string(), recipe, recipes); });
}

}  // namespace

TEST_CASE("OfficialVariablesBecomeAModelOfTheRecipeThatIsNamed") {
  const TemporaryFolder folder;
  const at::Tensor weight = torch::tensor({3.0F, 4.0F});
  save_safetensors(folder / "net.safetensors", {{"authors/weight", weight}}, {});
  const ModelContent model =
      import_weights((folder / "net.safetensors").string(), "official", toy_recipe_table());
  CHECK(model.model.at("recipe") == "official");
  CHECK(model.tensors.at("weight").equal(weight));
  CHECK_THAT(import_refusal(folder / "net.safetensors"), Catch::Contains("--recipe official"));
  CHECK_THAT(import_refusal(folder / "net.safetensors", "plain"),
             Catch::Contains("--recipe plain: safetensors files are read of official"));
}

TEST_CASE("ATensorThatIsMissingIsNamedAtTheImport") {
  const TemporaryFolder folder;
  save_safetensors(folder / "net.safetensors", {{"authors/other", torch::zeros({1})}}, {});
  CHECK_THAT(import_refusal(folder / "net.safetensors", "official"), Catch::Contains("weight"));
}

TEST_CASE("OtherFilesAreRefusedByWhatTheyAre") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::string, std::string>> table = {
      {"", "an empty file"},
      {"PK\3\4 and so on", "a zip"},
      {"<html>no such page</html>", "not a network pickle"}};
  for (const auto& [content, reason] : table) {
    write_file(folder / "net.pkl", content);
    CAPTURE(reason);
    CHECK_THAT(import_refusal(folder / "net.pkl"), Catch::Contains(reason));
  }
  write_file(folder / "net.pkl", "\x80\x04.");
  const RecipeTable pickled = {stylegan2::row(), stylegan3::row(), r3gan::row(), projected::row()};
  CHECK_THAT(import_refusal(folder / "net.pkl", "official", pickled),
             Catch::Contains("network pickles are of stylegan2, stylegan3, r3gan and projected"));
}

TEST_CASE("AModelIsDescribedByItsSizeAndTensors") {
  const at::Tensor t = torch::zeros({1});
  const ModelContent model{
      {{"recipe", "official"}, {"resolution", 8}, {"num_channels", 3}, {"label_size", 0}},
      {{"weight", t}, {"G.weight", t}, {"D.a", t}, {"D.b", t}}};
  CHECK(describe_model(model) ==
        "official of 8 pixels; channels 3, classes 0; tensors: 1 of the averaged generator, 1 of "
        "G, 2 of D");
}

TEST_CASE("ARecipeThatClaimsOfficialNamesReadsThem") {
  for (const RecipeRow& row :
       {dcgan::row(), pggan::row(), stylegan1::row(), stylegan2::row(), stylegan3::row()}) {
    CAPTURE(row.facts.name);
    CHECK(row.facts.has_official_names == (row.import_official != nullptr));
  }
}

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
  return input_error([&] { load_generator(folder / "model.safetensors", toy_recipe_table()); });
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
  save_safetensors(folder / "net.safetensors", {{"authors/weight", broken}}, {});
  CHECK_THAT(import_refusal(folder / "net.safetensors", "official"),
             Catch::Contains("net.safetensors: tensor weight: 1 of 2 values are not finite"));
}

TEST_CASE("WholeNumbersAreNoWeights") {
  const TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{"weight", torch::ones({2}, at::kInt)}}, {});
  CHECK_THROWS_WITH(load_generator(folder / "model.safetensors", toy_recipe_table()),
                    Catch::Contains("tensor weight is of Int"));
}

TEST_CASE("WhatTheMetadataSaysWronglyIsNamed") {
  CHECK_THAT(refusal({{"gantrain.model", R"({"recipe": "newer"})"}}),
             Catch::Contains("recipe newer is not known"));
  CHECK_THAT(refusal({{"gantrain.model", "{"}}),
             Catch::Contains("model.safetensors (gantrain.model)"));
  CHECK_THAT(refusal({{"gantrain.level", R"("high")"}}),
             Catch::Contains("gantrain.level = \"high\": no whole number"));
  for (const char* level : {"7", "1e300", "16.5"})
    CHECK_THAT(refusal({{"gantrain.level", level}}),
               Catch::Contains("safetensors: gantrain.level"));
  CHECK_THAT(refusal({{"gantrain.alpha", "5"}}), Catch::Contains("gantrain.alpha = 5"));
  CHECK_THAT(refusal({{"gantrain.depth", "16.5"}}), Catch::Contains("gantrain.depth = 16.5"));
}

// Their backslashes, brackets and semicolons mean something to CMake.
TEST_CASE("TheProgramHoldsItsPythonSourcesByteForByte") {
  const fs::path folder = fs::path(source_folder()) / "lib/exchange/python";
  CHECK(python_files().size() > 8);
  for (const auto& [name, text] : python_files()) {
    CAPTURE(name);
    CHECK(text == read_file(folder / name));
  }
}
