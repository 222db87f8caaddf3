// SPDX-License-Identifier: Apache-2.0
#include "draw/painter.h"

#include <catch2/catch.hpp>

#include "config/message.h"
#include "core/torch.h"
#include "support/toy_generator.h"
#include "util/error.h"

namespace gantrain {
namespace {

const ToyAbilities kAll = {.num_ws = 3, .classes = 5, .noise = true, .levels = {4, 8}};
const ToyAbilities kNone = {.num_ws = 0, .classes = 0, .noise = false, .levels = {}};

// A request with these keys of its message; the others are not given.
ModelRequest request(const std::string& more) {
  Json message = message_of(ModelRequest());
  message["model"] = "model.safetensors";
  message.update(Json::parse("{" + more + "}"));
  return message_from<ModelRequest>(message);
}

at::Tensor z() { return latents_of_seeds({7}, 4)[0]; }

// What is refused with exit code 2, or "".
std::string refusal(const ToyAbilities& abilities, const std::string& more, bool styles = false) {
  ToyGenerator generator(abilities);
  try {
    Painter painter(generator, request(more), styles);
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kUsage);
    return e.what();
  }
  return "";
}

// Of class 1.
at::Tensor picture(const std::string& more, uint64_t noise_seed = 7) {
  ToyGenerator generator(kAll);
  return Painter(generator, request(more)).picture(z(), noise_seed, 1);
}

}  // namespace

TEST_CASE("EveryFlagReachesTheGenerator") {
  const at::Tensor plain = picture("");
  REQUIRE(plain.sizes() == at::IntArrayRef({3, 8, 8}));
  ToyGenerator generator(kAll);
  CHECK(plain.equal(generator.images(z().unsqueeze(0), torch::full({1}, 1, at::kLong), {})[0]));
  CHECK(!Painter(generator, request("")).picture(z(), 7, 2).equal(plain));
  CHECK(!picture(R"("trunc": 0.5)").equal(plain));
  CHECK(picture(R"("trunc": 1)").equal(plain));
  CHECK(picture(R"("noise_mode": "const")").equal(plain));
  CHECK(!picture(R"("noise_mode": "none")").equal(plain));
  CHECK(picture(R"("level": 4)").sizes() == at::IntArrayRef({3, 4, 4}));
  CHECK(!picture(R"("alpha": 0.5)").equal(plain));
  // Channel l is layer l's alone, so that a cut-off shows.
  const at::Tensor cut = picture(R"("trunc": 0.5, "trunc_cutoff": 2)");
  CHECK(cut[2].equal(plain[2]));
  CHECK(!cut[1].equal(plain[1]));
}

TEST_CASE("RandomNoiseIsKeyedByThePicture") {
  const std::string random = R"("noise_mode": "random")";
  CHECK(picture(random, 7).equal(picture(random, 7)));
  CHECK(!picture(random, 7).equal(picture(random, 8)));
  const std::string constant = R"("noise_mode": "const")";
  CHECK(picture(constant, 7).equal(picture(constant, 8)));
}

TEST_CASE("APictureIsThatOfItsStyles") {
  ToyGenerator generator(kAll);
  Painter painter(generator, request(R"("trunc": 0.7, "noise_mode": "random")"));
  const at::Tensor ws = painter.map(z(), 3);
  REQUIRE(ws.sizes() == at::IntArrayRef({3, 4}));
  CHECK(painter.picture_of_styles(ws, 9).equal(painter.picture(z(), 9, 3)));
}

TEST_CASE("WhatAModelLacksIsRefusedWithTheModelsThatHaveIt") {
  const std::vector<std::pair<std::string, std::string>> table = {
      {R"("trunc": 0.7)", "--trunc 0.7"},
      {R"("trunc": 0.7, "trunc_cutoff": 2)", "--trunc"},
      {R"("noise_mode": "const")", "--noise-mode const"},
      {R"("level": 4)", "--level 4"},
      {R"("alpha": 0.5)", "--alpha 0.5"}};
  for (const auto& [flags, named] : table) {
    const std::string error = refusal(kNone, flags);
    CAPTURE(flags, error);
    CHECK(error.find(named) != std::string::npos);
    CHECK(error.find("model.safetensors") != std::string::npos);
    CHECK(error.find("have") != std::string::npos);
  }
  CHECK(refusal(kNone, "").empty());
  CHECK(refusal(kNone, R"("trunc": 1)").empty());  // changes nothing
}

TEST_CASE("StylesHaveTruncationInThem") {
  CHECK(refusal(kAll, "", true).empty());
  CHECK(refusal(kAll, R"("trunc": 0.5)", true).find("--trunc 0.5") != std::string::npos);
  CHECK(refusal(kAll, R"("trunc": 1)", true).empty());
  CHECK(refusal(kAll, R"("noise_mode": "none")", true).empty());
}

TEST_CASE("LayersAndStagesAreThoseOfTheModel") {
  CHECK(refusal(kAll, R"("trunc": 0.5, "trunc_cutoff": 4)").find("3 layers") != std::string::npos);
  CHECK(refusal(kAll, R"("trunc": 0.5, "trunc_cutoff": 3)").empty());
  CHECK(refusal(kAll, R"("level": 16)").find("4, 8") != std::string::npos);
}

TEST_CASE("OnlyInputsThatCanBeMovedAreMoved") {
  CHECK_THAT(refusal(kAll, R"("degrees": [30])"),
             Catch::Contains("--rotate 30") && Catch::Contains("model.safetensors"));
  CHECK_THAT(refusal(kAll, R"("right": [0.1])"), Catch::Contains("--translate"));
  CHECK_THAT(refusal(kAll, R"("degrees": [0, 90, 0])"), Catch::Contains("--rotate 0:90:0"));
  CHECK(refusal(kAll, R"("right": [0])") == "");
}

}  // namespace gantrain
