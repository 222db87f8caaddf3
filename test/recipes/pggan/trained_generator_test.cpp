// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "official.h"
#include "recipes/pggan/recipe.h"
#include "util/error.h"

using namespace gantrain;

namespace {

std::unique_ptr<Generator> official() {
  const ModelContent model = pggan::import_official(fixture("pggan16_params"), "pggan16_params");
  auto generator = pggan::make_generator(model.model, model.tensors, "pggan16_params");
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
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor;
  CHECK(pggan::recognises(tensors));
  CHECK_FALSE(pggan::recognises({}));
  const Json model = pggan::model_of(shape);
  const auto generator = pggan::make_generator(model, tensors, "file");
  load_into(*generator->network(), tensors, "file");
  const at::Tensor z = torch::randn({2, 5});
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(generator->images(z, {}), G.forward(z, {8})));
  CHECK_THROWS_AS(pggan::make_generator({{"fmap_max", -1}}, tensors, "file"), UserError);
}
