// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "official.h"
#include "recipes/stylegan1/recipe.h"
#include "util/error.h"

using namespace gantrain;

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
  const TensorMap back = stylegan1::export_official(model.tensors, std::nullopt);
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
  file.tensors = stylegan1::export_official(tensors, std::nullopt);
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
    try {
      stylegan1::import_official(file, "FILE");
    } catch (const UserError& error) {
      CHECK(error.code() == Exit::kInput);
      return std::string(error.what());
    }
    return std::string("taken");
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
