// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "nn/style/styles.h"
#include "official.h"
#include "recipes/stylegan1/recipe.h"
#include "util/error.h"

using namespace gantrain;

namespace {

struct Official {
  TensorFile reference = fixture("stylegan1_16_io");
  std::unique_ptr<Generator> generator;

  Official() {
    const std::string source = "stylegan1_16_params";
    const ModelContent model = stylegan1::import_official(fixture(source), source);
    generator = stylegan1::make_generator(model.model, model.tensors, source);
    load_into(*generator->network(), model.tensors, source);
  }
  const at::Tensor& operator[](const std::string& key) const { return reference.tensors.at(key); }
  at::Tensor images(const SynthesisOptions& options) {
    return generator->images((*this)["in/z"], {}, options);
  }
};

}  // namespace

TEST_CASE("ImportedWeightsGiveTheOfficialPictures") {
  Official official;
  CHECK(official.generator->z_dim() == 32);
  CHECK(official.generator->w_dim() == 32);
  CHECK(official.generator->num_ws() == 6);
  CHECK(official.generator->has_noise());
  CHECK(official.generator->levels() == std::vector<int64_t>{4, 8, 16});
  SynthesisOptions options;
  CHECK(scaled_error(official.images(options), official["out/G/16/a1"]) < 5e-5);
  options.level = 8;
  options.alpha = 0.3;
  CHECK(scaled_error(official.images(options), official["out/G/8/a0.3"]) < 5e-5);
  CHECK_FALSE(official.images(options).requires_grad());
}

TEST_CASE("TruncationIsTheOfficialOne") {
  Official official;
  SynthesisOptions options;
  options.trunc = 0.7;
  CHECK(scaled_error(official.images(options), official["out/trunc/psi0.7_cutoff8/img"]) < 5e-5);
  options.trunc = 0.5;
  options.trunc_cutoff = 2;
  CHECK(scaled_error(official.images(options), official["out/trunc/psi0.5_cutoff2/img"]) < 5e-5);
  CHECK(scaled_error(official.generator->map(official["in/z"], {}, options),
                     official["out/trunc/psi0.5_cutoff2/w"]) < 5e-5);
}

TEST_CASE("PicturesOfMixedStylesAreTheOfficialOnes") {
  Official official;
  const at::Tensor a = official.generator->map(official["in/z"], {}, {});
  const at::Tensor b = official.generator->map(official["in/z2"], {}, {});
  const at::Tensor mixed = mix_styles(a, b, torch::tensor(3));
  CHECK(scaled_error(official.generator->synthesize(mixed, {}), official["out/mix/cut3/img"]) <
        5e-5);
  CHECK_THROWS_WITH(official.generator->synthesize(mixed.narrow(1, 0, 4), {}),
                    Catch::Contains("[N, 6, 32]"));
}

TEST_CASE("NoiseModesDifferAndASeedIsAlwaysTheSameNoise") {
  Official official;
  SynthesisOptions options;
  const at::Tensor stored = official.images(options);
  options.noise = NoiseMode::kNone;
  CHECK_FALSE(torch::allclose(official.images(options), stored));
  options.noise = NoiseMode::kRandom;
  const at::Tensor random = official.images(options);
  CHECK_FALSE(torch::allclose(random, stored));
  CHECK(torch::equal(official.images(options), random));
  options.noise_seed = 1;
  CHECK_FALSE(torch::allclose(official.images(options), random));
}

TEST_CASE("ALevelThatTheNetworkHasNotIsRefused") {
  Official official;
  SynthesisOptions options;
  options.level = 12;
  CHECK_THROWS_WITH(official.images(options), Catch::Contains("4, 8, 16"));
}

TEST_CASE("OwnModelsAreRecognisedAndBuiltAsTheyWere") {
  stylegan1::Shape shape = stylegan1::tiny_shape(8, 1, 3);
  shape.net.mapping_lrmul = 0.1;  // which the tensors do not show
  stylegan1::Generator G(shape);
  stylegan1::initialise(G, "G", 1);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor;
  CHECK(stylegan1::recognises(tensors));
  CHECK_FALSE(stylegan1::recognises({}));
  const auto generator = stylegan1::make_generator(stylegan1::model_of(shape), tensors, "file");
  load_into(*generator->network(), tensors, "file");
  CHECK(generator->classes() == 3);
  const at::Tensor z = torch::randn({2, 7}), labels = torch::tensor({0, 2});
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(generator->images(z, labels, {}), G.forward(z, labels, {8}, stored_noise())));
  CHECK_THROWS_AS(stylegan1::make_generator({{"mapping_lrmul", 0}}, tensors, "file"), UserError);
}
