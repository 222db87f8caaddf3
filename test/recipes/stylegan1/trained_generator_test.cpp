// SPDX-License-Identifier: Apache-2.0
#include "nn/style/layers.h"
#include "recipes/stylegan1/official.h"
#include "recipes/stylegan1/recipe.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "util/error.h"

using namespace gantrain;

namespace {

struct Official {
  TensorFile reference = fixture("stylegan1_16_io");
  std::unique_ptr<Generator> generator;

  Official() {
    const std::string source = "stylegan1_16_params";
    const ModelContent model = stylegan1::import_official(fixture(source), source);
    generator = stylegan1::row().make_generator(model.model, model.tensors, source);
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
  auto tensors = tensors_of(G);
  CHECK(stylegan1::row().recognises(tensors));
  CHECK_FALSE(stylegan1::row().recognises({}));
  const auto generator =
      stylegan1::row().make_generator(stylegan1::model_of(shape), tensors, "file");
  load_into(*generator->network(), tensors, "file");
  CHECK(generator->classes() == 3);
  const at::Tensor z = torch::randn({2, 7}), labels = torch::tensor({0, 2});
  const torch::NoGradGuard no_grad;
  CHECK(torch::equal(generator->images(z, labels, {}), G.forward(z, labels, {8}, stored_noise())));
  CHECK_THROWS_AS(stylegan1::row().make_generator({{"mapping_lrmul", 0}}, tensors, "file"),
                  UserError);
}

namespace {

constexpr const char* kFile = "stylegan1_16_params";

}  // namespace

TEST_CASE("OfficialWeightsComeBackAsTheyWere") {
  const TensorFile file = fixture(kFile);
  const ModelContent model = stylegan1::import_official(file, kFile);
  CHECK(model.tensors.count("dlatent_avg") == 1);
  CHECK(model.tensors.count("synthesis.16x16.Conv0_up.StyleMod.weight") == 1);
  CHECK(model.tensors.count("D.4x4.Dense1.weight") == 1);
  CHECK(model.model["recipe"] == "stylegan1");
  CHECK(model.model["mapping_fmaps"] == 32);
  const TensorMap back = stylegan1::export_official(model.tensors);
  REQUIRE(back.size() == file.tensors.size());
  for (const auto& [key, value] : file.tensors) {
    CAPTURE(key);
    CHECK(torch::equal(back.at(key), value));
  }
}

TEST_CASE("FusedUpSamplingKernelsAreStoredMirrored") {
  const at::Tensor kernel = torch::zeros({3, 3, 2, 2});
  const auto layout = [&](std::optional<bool> fused, const char* name) {
    return stylegan1::layouts(fused)(name, kernel);
  };
  CHECK(layout(std::nullopt, "64x64/Conv0_up/weight") == TfLayout::kConv);
  CHECK(layout(std::nullopt, "128x128/Conv0_up/weight") == TfLayout::kMirroredConv);
  CHECK(layout(true, "8x8/Conv0_up/weight") == TfLayout::kMirroredConv);
  CHECK(layout(false, "256x256/Conv0_up/weight") == TfLayout::kConv);
  CHECK(layout(true, "8x8/Conv1/weight") == TfLayout::kConv);
  CHECK(layout(true, "8x8/Conv1_down/weight") == TfLayout::kConv);

  TensorFile file = fixture(kFile);
  const at::Tensor plain =
      stylegan1::import_official(file, kFile).tensors.at("synthesis.16x16.Conv0_up.weight");
  file.metadata["config"] = R"({"G": {"fused_scale": true}})";
  const ModelContent fused = stylegan1::import_official(file, kFile);
  CHECK(torch::equal(fused.tensors.at("synthesis.16x16.Conv0_up.weight"), plain.flip({2, 3})));
}

TEST_CASE("LabelsAreImported") {
  stylegan1::Generator G(stylegan1::tiny_shape(8, 1, 4));
  stylegan1::initialise(G, "G", 2);
  TensorMap tensors;
  for (const auto& [name, tensor] : state_of(G)) tensors[name] = tensor.detach();
  TensorFile file;
  file.tensors = stylegan1::export_official(tensors);
  CHECK(file.tensors.at("G_mapping/LabelConcat/weight").sizes() == at::IntArrayRef({4, 7}));
  const ModelContent model = stylegan1::import_official(file, "file");
  CHECK(model.model["label_size"] == 4);
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(torch::equal(model.tensors.at(name), tensor));
  }
}

TEST_CASE("WhatDoesNotFitIsNamed") {
  const auto refused = [](const std::function<void(TensorFile&)>& change) {
    TensorFile file = fixture(kFile);
    change(file);
    return input_error([&] { stylegan1::import_official(file, "FILE"); });
  };
  using Catch::Contains;
  CHECK_THAT(refused([](TensorFile& f) { f.tensors.erase("G_synthesis/noise3"); }),
             Contains("FILE: tensor synthesis.noise3 is missing"));
  CHECK_THAT(refused([](TensorFile& f) { f.tensors["G_mapping/Dense9/a"] = torch::ones({3}); }),
             Contains("mapping.Dense9.a"));
  CHECK_THAT(refused([](TensorFile& f) { f.tensors["Gs/lod"] = torch::ones({3}); }),
             Contains("Gs/lod is no variable"));
  CHECK_THAT(refused([](TensorFile& f) { f.metadata["config"] = R"({"G": {"fused_scale": 7}})"; }),
             Contains("fused_scale = 7"));
  CHECK_THAT(
      refused([](TensorFile& f) { f.metadata["config"] = R"({"G": {"mapping_layers": 9}})"; }),
      Contains("mapping.Dense8"));
}
