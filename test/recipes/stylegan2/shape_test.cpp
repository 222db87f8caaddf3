// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"
#include "util/error.h"

using namespace gantrain;
using namespace gantrain::stylegan2;
using Catch::Contains;

namespace {

GeneratorShape odd_one(BlockArchitecture architecture) {
  GeneratorShape s;
  s.mapping.z_dim = 7;
  s.mapping.c_dim = 3;
  s.mapping.w_dim = 9;
  s.mapping.num_layers = 3;
  s.mapping.embed_features = 4;
  s.mapping.layer_features = 6;
  s.mapping.lr_multiplier = 0.1;
  s.mapping.w_avg_beta = 0.998;
  s.synthesis = small_blocks(architecture, 32, 4);
  s.synthesis.channel_base = 200;  // 16, 16, 12, 6
  s.synthesis.num_fp16_res = 2;
  s.synthesis.conv_clamp = 256;
  return s;
}

GeneratorShape read(const std::string& json) { return shape_of_model(Json::parse(json), "file"); }

void refused(const std::string& json, const std::string& key) {
  CAPTURE(json);
  CHECK_THROWS_WITH(read(json), Contains("file: ") && Contains(key));
  CHECK_THROWS_AS(read(json), UserError);
}

}  // namespace

TEST_CASE("AConfigurationSurvivesItsJson") {
  for (const BlockArchitecture architecture : kArchitectures) {
    const Json json = to_json(odd_one(architecture));
    CHECK(json["recipe"] == "stylegan2");
    CHECK(json["synthesis_kwargs"]["conv_clamp"] == 256);
    CHECK(to_json(shape_of_model(Json::parse(json.dump()), "file")) == json);
  }
  // What has no value is null: the reference's own default.
  const Json plain = to_json({});
  CHECK(plain["synthesis_kwargs"]["conv_clamp"].is_null());
  CHECK(to_json(shape_of_model(plain, "file")) == plain);
}

TEST_CASE("WhatIsAbsentHasTheReferencesDefault") {
  for (const char* json : {R"({"recipe": "stylegan2"})",
                           R"({"z_dim": null, "mapping_kwargs": null, "synthesis_kwargs": {}})"}) {
    const GeneratorShape s = read(json);
    CHECK(s.mapping.z_dim == 512);
    CHECK(s.mapping.w_dim == 512);
    CHECK(s.mapping.c_dim == 0);
    CHECK(s.mapping.num_layers == 8);
    CHECK(s.mapping.lr_multiplier == 0.01);
    CHECK(s.mapping.w_avg_beta == 0.995);
    CHECK(s.synthesis.channel_base == 32768);
    CHECK(s.synthesis.channel_max == 512);
    CHECK(s.synthesis.num_fp16_res == 0);
    CHECK_FALSE(s.synthesis.conv_clamp);
    CHECK(s.synthesis.architecture == BlockArchitecture::kSkip);
  }
}

TEST_CASE("KeysOfTheSynthesisNetworkMayStandBesideTheOthers") {
  const GeneratorShape s = read(R"({"channel_base": 1024, "channel_max": 64, "fused": 3,
                                    "mapping_kwargs": {"num_layers": 2, "activation": "lrelu"}})");
  CHECK(s.synthesis.channels(16) == 64);
  CHECK(s.synthesis.channels(32) == 32);
  CHECK(s.mapping.num_layers == 2);
}

TEST_CASE("WrongValuesAreRefusedByName") {
  refused(R"([1])", "gantrain.model");
  refused(R"({"z_dim": "many"})", "z_dim");
  refused(R"({"z_dim": -1})", "z_dim");
  refused(R"({"z_dim": 1.5})", "z_dim");
  refused(R"({"z_dim": 18446744073709551615})", "z_dim");
  refused(R"({"z_dim": 0})", "z_dim");
  refused(R"({"w_dim": 0})", "w_dim");
  refused(R"({"c_dim": true})", "c_dim");
  refused(R"({"img_resolution": 33})", "img_resolution");
  refused(R"({"img_resolution": "64x33"})", "img_resolution");
  refused(R"({"img_resolution": "64x"})", "img_resolution");
  refused(R"({"img_resolution": [64, 32]})", "img_resolution");
  refused(R"({"img_resolution": 2})", "img_resolution");
  refused(R"({"img_channels": 0})", "img_channels");
  refused(R"({"mapping_kwargs": 8})", "mapping_kwargs");
  refused(R"({"mapping_kwargs": {"num_layers": 0}})", "mapping_kwargs.num_layers");
  refused(R"({"mapping_kwargs": {"lr_multiplier": 0}})", "mapping_kwargs.lr_multiplier");
  refused(R"({"mapping_kwargs": {"w_avg_beta": 2}})", "mapping_kwargs.w_avg_beta");
  refused(R"({"synthesis_kwargs": {"conv_clamp": "256"}})", "synthesis_kwargs.conv_clamp");
  refused(R"({"synthesis_kwargs": {"architecture": "dense"}})", "skip|resnet|orig");
  refused(R"({"synthesis_kwargs": {"architecture": 1}})", "synthesis_kwargs.architecture");
  refused(R"({"synthesis_kwargs": {"channel_base": 16}})", "synthesis_kwargs.channel_base");
}

TEST_CASE("SizesAreReadOffTheTensors") {
  for (const BlockArchitecture architecture : kArchitectures) {
    for (const bool conditional : {true, false}) {
      GeneratorShape s = odd_one(architecture);
      if (!conditional) s.mapping.c_dim = 0;
      const stylegan2::Generator G(s);
      const GeneratorShape seen = generator_shape({}, tensors_of(G), "file");
      check_same_layout(stylegan2::Generator(seen), tensors_of(G));
      CHECK(seen.synthesis.architecture == architecture);
      CHECK(seen.mapping.z_dim == 7);
      CHECK(seen.mapping.c_dim == (conditional ? 3 : 0));
      CHECK(seen.synthesis.channel_base <= 200);
    }
  }
  for (const int64_t resolution : {4, 8}) {
    GeneratorShape s;
    s.mapping.num_layers = 1;
    s.synthesis = small_blocks(BlockArchitecture::kSkip, resolution, 1);
    const stylegan2::Generator G(s);
    check_same_layout(stylegan2::Generator(shape_of_tensors(tensors_of(G), "file")), tensors_of(G));
  }
}

TEST_CASE("RectanglesAreReadOffTheTensorsAndTheModelIsTheSameAgain") {
  for (const Size& size : {Size{64, 32}, Size{24, 40}, Size{48, 48}}) {
    GeneratorShape s;
    s.mapping.num_layers = 1;
    s.synthesis = small_blocks(BlockArchitecture::kSkip, 32, 1);
    s.synthesis.img_resolution = size;
    CAPTURE(to_text(size));
    const Tensors tensors = tensors_of(stylegan2::Generator(s));
    CHECK(shape_of_tensors(tensors, "file").synthesis.img_resolution == size);
    const Json model = to_json(s);
    CHECK(model["img_resolution"] == Value<Size>::to_json(size));
    CHECK(generator_shape(model, tensors, "file").synthesis.img_resolution == size);
    Json turned = model;
    turned["img_resolution"] = to_text(Size{size.height, 2 * size.width});
    CHECK_THROWS_WITH(generator_shape(turned, tensors, "file"), Contains("img_resolution"));
    Tensors odd = tensors;
    odd["synthesis.b4.const"] = torch::zeros({16, 3, 8});
    CHECK_THROWS_WITH(shape_of_tensors(odd, "file"), Contains("synthesis.b4.const"));
  }
}

TEST_CASE("AConfigurationThatContradictsTheTensorsIsRefusedByName") {
  const GeneratorShape s = odd_one(BlockArchitecture::kSkip);
  const Tensors tensors = tensors_of(stylegan2::Generator(s));
  const Json good = to_json(s);
  CHECK(to_json(generator_shape(good, tensors, "file")) == good);
  const auto contradicts = [&](const std::string& pointer, const Json& value) {
    Json bad = good;
    bad[nlohmann::json_pointer<std::string>(pointer)] = value;
    const std::string key = pointer.substr(pointer.rfind('/') + 1);
    CHECK_THROWS_WITH(generator_shape(bad, tensors, "file"), Contains(key) && Contains("file"));
  };
  contradicts("/z_dim", 8);
  contradicts("/c_dim", 0);
  contradicts("/w_dim", 8);
  contradicts("/img_resolution", 64);
  contradicts("/img_channels", 3);
  contradicts("/mapping_kwargs/num_layers", 2);
  contradicts("/mapping_kwargs/embed_features", 5);
  contradicts("/mapping_kwargs/layer_features", 5);
  contradicts("/synthesis_kwargs/architecture", "orig");
  contradicts("/synthesis_kwargs/channel_base", 400);
  contradicts("/synthesis_kwargs/channel_max", 12);
}

TEST_CASE("TensorsThatDoNotFitAreNamed") {
  const Tensors good = tensors_of(stylegan2::Generator(odd_one(BlockArchitecture::kSkip)));
  const auto broken = [&](const std::string& name, const Tensor& value) {
    Tensors bad = good;
    if (value.defined()) {
      bad[name] = value;
    } else {
      bad.erase(name);
    }
    CAPTURE(name);
    CHECK_THROWS_WITH(shape_of_tensors(bad, "file"), Contains(name) && Contains("file"));
    CHECK_THROWS_AS(shape_of_tensors(bad, "file"), UserError);
  };
  broken("synthesis.b4.const", {});
  broken("synthesis.b4.conv1.weight", {});
  broken("synthesis.b32.torgb.weight", {});
  broken("mapping.fc0.weight", {});
  broken("synthesis.b8.conv1.weight", torch::zeros({3}));
  broken("synthesis.b8.conv1.weight", torch::zeros({3, 16, 3, 3}));
  broken("mapping.embed.weight", torch::zeros({100, 3}));
  broken("mapping.fc0.weight", torch::zeros({0, 3}));
}
