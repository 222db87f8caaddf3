// SPDX-License-Identifier: Apache-2.0
#include "recipes/pggan/official.h"
#include "recipes/pggan/recipe.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "util/error.h"

using namespace gantrain;

namespace {

std::unique_ptr<Generator> official() {
  const ModelContent model = pggan::import_official(fixture("pggan16_params"), "pggan16_params");
  auto generator = pggan::row().make_generator(model.model, model.tensors, "pggan16_params");
  load_into(*generator->network(), model.tensors, "pggan16_params");
  return generator;
}

SynthesisOptions at_level(int64_t level, double alpha) {
  SynthesisOptions options;
  options.level = level;
  options.alpha = alpha;
  return options;
}

}  // namespace

TEST_CASE("ImportedWeightsGiveTheOfficialPicturesOfEveryStage") {
  const auto generator = official();
  const TensorFile reference = fixture("pggan16_io");
  const at::Tensor& z = reference.tensors.at("in/z");
  CHECK(generator->z_dim() == 32);
  CHECK(generator->levels() == std::vector<int64_t>{4, 8, 16});
  CHECK(scaled_error(generator->images(z, {}), reference.tensors.at("G/16/a1")) < 5e-5);
  CHECK(scaled_error(generator->images(z, {}, at_level(4, 0.5)),
                     reference.tensors.at("G/4/a1")) < 5e-5);  // nothing to fade with
  CHECK(scaled_error(generator->images(z, {}, at_level(8, 0.3)), reference.tensors.at("G/8/a0.3")) <
        5e-5);
  CHECK_FALSE(generator->images(z, {}).requires_grad());
  CHECK(generator->num_ws() == 0);
}

TEST_CASE("ALevelThatTheNetworkHasNotIsRefused") {
  const auto generator = official();
  const at::Tensor z = torch::randn({1, 32});
  CHECK_THROWS_WITH(generator->images(z, {}, at_level(32, 1)), Catch::Contains("4, 8, 16"));
  CHECK_THROWS_WITH(generator->images(z, {}, at_level(8, 1.5)), Catch::Contains("--alpha 1.5"));
}

TEST_CASE("OwnModelsAreRecognisedAndBuiltAsTheyWere") {
  pggan::Shape shape;
  shape.resolution = 8;
  shape.net = {5, 90, 1, 30, true};  // widths 30, 22: no power of two
  pggan::Generator G(shape);
  initialise_equalised(G, "G", 1);
  auto tensors = tensors_of(G);
  CHECK(pggan::row().recognises(tensors));
  CHECK_FALSE(pggan::row().recognises({}));
  const Json model = pggan::model_of(shape);
  const auto generator = pggan::row().make_generator(model, tensors, "file");
  load_into(*generator->network(), tensors, "file");
  const at::Tensor z = torch::randn({2, 5});
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(generator->images(z, {}), G.forward(z, {8})));
  CHECK_THROWS_AS(pggan::row().make_generator({{"fmap_max", -1}}, tensors, "file"), UserError);
}

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
    return input_error([&] { pggan::import_official(file, "FILE"); });
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
