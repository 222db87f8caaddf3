// SPDX-License-Identifier: Apache-2.0
#include "recipes/stylegan2/options.h"

#include <algorithm>

#include "recipes/completed_config.h"
#include "support/catch.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;

namespace {

Config config_of(const std::map<std::string, Json>& values, const std::string& origin = "preset") {
  return run_config(stylegan2::facts(), values, origin);
}

std::vector<std::string> complete(Config& config, const Site& site) {
  return stylegan2::facts().complete(config, site);
}

Config automatic(int64_t resolution, int64_t ranks) {
  Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", resolution}});
  complete(config, {.ranks = ranks});
  return config;
}

double value(const Config& config, const char* key) { return config.get(key).get<double>(); }

}  // namespace

// Table of the `auto` values, 64 to 1024 pixels, 1 to 8 ranks: batch and gamma.
TEST_CASE("AutomaticBatchAndGammaAreTheReferences") {
  struct Row {
    int64_t resolution;
    double batch[4], gamma[4];
  };
  const Row table[] = {
      {64, {32, 64, 64, 64}, {.0256, .0128, .0128, .0128}},
      {128, {32, 64, 64, 64}, {.1024, .0512, .0512, .0512}},
      {256, {16, 32, 64, 64}, {.8192, .4096, .2048, .2048}},
      {512, {8, 16, 32, 64}, {6.5536, 3.2768, 1.6384, .8192}},
      {1024, {4, 8, 16, 32}, {52.4288, 26.2144, 13.1072, 6.5536}},
  };
  for (const Row& row : table) {
    for (int i = 0; i < 4; ++i) {
      const Config config = automatic(row.resolution, int64_t{1} << i);
      CAPTURE(row.resolution, i);
      CHECK(value(config, "train.batch") == row.batch[i]);
      CHECK(value(config, "stylegan2.gamma") == Approx(row.gamma[i]));
      CHECK(value(config, "stylegan2.mbstd_group") == 4);
      CHECK(value(config, "stylegan2.channel_base") == (row.resolution >= 512 ? 32768 : 16384));
      CHECK(value(config, "G.adam.lr") == (row.resolution >= 1024 ? .002 : .0025));
      CHECK(value(config, "ema.half_life") == Approx(row.batch[i] * 10 / 32));
    }
  }
}

// The authors' code does so with --resume=MODEL.
TEST_CASE("ARunFromOtherWeightsHasNoRampUp") {
  const std::map<std::string, Json> values = {{"run.init_from", "m.safetensors"}};
  Config config = config_of(values);
  complete(config, {});
  CHECK(value(config, "ema.rampup") == 0);
  CHECK(config.origin("ema.rampup") == "auto (run.init_from)");
  CHECK(value(config, "ada.kimg") == 100);
  Config later = config_of(values);
  complete(later, {.goes_on = true});
  CHECK(value(later, "ema.rampup") == 0.05);
}

TEST_CASE("EveryLayerHasAFeatureMap") {
  Config config = config_of({{"stylegan2.channel_base", 63}, {"data.resolution", 64}});
  CHECK_THROWS_WITH(complete(config, {}),
                    Catch::Contains("stylegan2.channel_base = 63: at least 64"));
  Config least = config_of({{"stylegan2.channel_base", 64}, {"data.resolution", 64}});
  CHECK_NOTHROW(complete(least, {}));
}

TEST_CASE("RectanglesGetTheAutomaticValuesOfASquareOfAsManyPixels") {
  for (const auto& [rectangle, side] :
       {std::pair(Size{128, 32}, 64), std::pair(Size{512, 128}, 256)}) {
    Config config =
        config_of({{"stylegan2.automatic", true}, {"data.resolution", to_text(rectangle)}});
    const std::vector<std::string> lines = complete(config, {.ranks = 2});
    const Config of_square = automatic(side, 2);
    for (const char* key :
         {"train.batch", "stylegan2.gamma", "stylegan2.channel_base", "ema.half_life", "G.adam.lr"})
      CHECK(config.get(key) == of_square.get(key));
    CHECK_THAT(lines.at(0), Catch::Contains(to_text(rectangle)));
    CHECK_THAT(lines.at(1), Catch::Contains(rectangle.width == 128 ? "128 x 32" : "512 x 128"));
  }
}

TEST_CASE("AnyNumberOfRanksGetsABatchThatTheyAndTheGroupDivide") {
  for (int64_t ranks = 1; ranks <= 32; ++ranks) {
    for (const int64_t resolution : {32, 256, 1024}) {
      const Config config = automatic(resolution, ranks);
      const auto batch = config.get("train.batch").get<int64_t>();
      const auto group = config.get("stylegan2.mbstd_group").get<int64_t>();
      CAPTURE(ranks, resolution, batch);
      CHECK(batch % (ranks * group) == 0);
      CHECK(group >= 2);
      CHECK(batch <= 64);
    }
  }
}

TEST_CASE("MoreRanksThanABatchFeedsAreRefusedAndGetNoOtherBatch") {
  for (const int64_t ranks : {33, 64, 1024}) {
    Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", 256}});
    CHECK_THROWS_WITH(
        complete(config, {.ranks = ranks, .of_node = 8}),
        Catch::Contains("batch 64 feeds at most 64 ranks, 16 with whole groups of 4: --nnodes 2; "
                        "or give --batch " +
                        std::to_string(4 * ranks)));
  }
  const auto given = [](const char* key, int64_t value) {
    Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", 256}});
    config.set(key, value, "flag");
    complete(config, {.ranks = 64});
    return config.get("stylegan2.mbstd_group").get<int64_t>();
  };
  CHECK(given("train.batch", 256) == 4);
  CHECK(given("train.batch", 128) == 2);
  CHECK_THROWS_WITH(given("train.batch", 64), Catch::Contains("--nproc 16"));
  CHECK(given("stylegan2.mbstd_group", 1) == 1);  // who asks for it gets it
}

TEST_CASE("RatesThatFollowTheBatchDoSoFromTheAutomaticOne") {
  for (const auto& [rule, batch, rate] :
       std::vector<std::tuple<const char*, int64_t, double>>{{"linear", 32, 0.005},
                                                             {"linear", 16, 0.0025},
                                                             {"sqrt", 64, 0.005},
                                                             {"none", 64, 0.0025}}) {
    CAPTURE(rule, batch);
    Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", 256}});
    config.set("train.batch", batch, "flag --batch");  // 16 without it
    config.set("train.lr_scale", rule, "flag --lr-scale");
    const auto lines = complete(config, {.ranks = 1});
    CHECK(config.get("G.adam.lr").get<double>() == rate);
    const double of_sgd = automatic(256, 1).get("D.sgd.lr").get<double>();
    CHECK(config.get("D.sgd.lr").get<double>() == Approx(of_sgd * rate / 0.0025));
    const bool told = std::ranges::any_of(lines, [](const std::string& line) {
      return line ==
             "batch   64 instead of 16: learning rates stay (--lr-scale linear|sqrt scales "
             "them)";
    });
    CHECK(told == (std::string(rule) == "none"));
  }
}

TEST_CASE("WhatTheUserGaveIsNotChosen") {
  Config config = config_of({{"stylegan2.automatic", true}, {"data.resolution", 64}});
  config.set("train.batch", 24, "flag --batch");
  config.set("G.adam.lr", 0.001, "flag --set");
  const std::vector<std::string> said = complete(config, {.ranks = 2});
  CHECK(value(config, "train.batch") == 24);
  CHECK(value(config, "G.adam.lr") == 0.001);
  CHECK(value(config, "D.adam.lr") == 0.0025);
  CHECK(value(config, "stylegan2.gamma") == Approx(0.0002 * 64 * 64 / 24));
  CHECK(config.origin("stylegan2.gamma") == "auto (0.0002 x 64^2 / 24)");
  REQUIRE(said.size() == 3);
  CHECK(starts_with(said[1], "batch   24 instead of 64: learning rates stay"));
  CHECK_THAT(said[2], Catch::Contains("0.0002 x 64^2 / 24"));
}

// A paper's batch of 64 made for 8 ranks: fewer ranks accumulate, any divisor will do.
TEST_CASE("FewerRanksAccumulateThePapersBatch") {
  const std::map<int64_t, int64_t> micro = {{1, 8}, {2, 8}, {4, 8}, {8, 8}, {16, 4}, {32, 2}};
  for (const auto& [ranks, expected] : micro) {
    Config config = config_of({{"train.batch", 64},
                               {"data.resolution", 256},
                               {"stylegan2.gamma", 1},
                               {"stylegan2.mbstd_group", 8},
                               {"stylegan2.max_micro_batch", 8}});
    complete(config, {.ranks = ranks});
    CAPTURE(ranks);
    const Json chosen = config.get("train.micro_batch");
    CHECK((chosen == "auto" ? 64 / ranks : chosen.get<int64_t>()) == expected);
  }
  Config three = config_of({{"train.batch", 36}, {"stylegan2.max_micro_batch", 8}});
  complete(three, {.ranks = 3});
  CHECK(three.get("train.micro_batch") == 4);
}

// The reference code: --cfg=paper256 with the options that its users leave alone.
TEST_CASE("OnAGpuTheRecipeComputesAsTheReferenceDoes") {
  for (const int64_t ranks : {1, 8}) {
    CAPTURE(ranks);
    Config config = config_of({{"train.batch", 64},
                               {"stylegan2.gamma", 1},
                               {"stylegan2.mbstd_group", 8},
                               {"stylegan2.max_micro_batch", 8}},
                              "preset p");
    const Config before = config;
    const std::vector<std::string> said = complete(config, {.ranks = ranks, .on_gpu = true});
    const auto precision = config.read<PrecisionOptions>();
    CHECK(compute_type(precision, /*on_gpu=*/true) == ComputeType::kFloat16);
    CHECK(precision.mode == PrecisionMode::kBlocks);
    CHECK_FALSE(scales_dynamically(precision));
    CHECK_FALSE(precision.tf32);
    const auto options = config.read<stylegan2::Options>();
    CHECK(options.num_fp16_res == 4);
    CHECK(options.conv_clamp == 256);
    CHECK(config.get("data.workers") == 3);
    CHECK(config.get("train.micro_batch") == "auto");
    for (const char* key : {"precision.amp", "precision.mode", "data.workers"})
      CHECK(config.origin(key) == "auto (GPU)");
    REQUIRE(said.size() == 1);
    CHECK(said[0] == "auto    on a GPU: precision.mode blocks, precision.amp fp16, data.workers 3");

    Config on_cpu = before;
    CHECK(complete(on_cpu, {.ranks = ranks}).empty());
    const std::vector<Difference> chosen = differences(before, on_cpu);
    CHECK(chosen.size() == (ranks == 1 ? 1 : 0));
    for (const Difference& one : chosen) CHECK(one.key == "train.micro_batch");
    for (const char* key : {"precision.amp", "precision.mode", "data.workers"})
      CHECK(on_cpu.origin(key) == "default");
  }
}

TEST_CASE("AGpuTakesARanksWholeBatchUnlessTheUserLimitsIt") {
  const auto micro_batch = [](const std::map<std::string, Json>& given) {
    Config config = config_of({{"train.batch", 64}, {"stylegan2.max_micro_batch", 8}}, "preset p");
    for (const auto& [key, value] : given) config.set(key, value, "flag --set");
    complete(config, {.ranks = 2, .on_gpu = true});
    return std::pair(config.get("train.micro_batch"), config.origin("train.micro_batch"));
  };
  using Pair = std::pair<Json, std::string>;
  CHECK(micro_batch({}) == Pair("auto", "auto (GPU: all 32 images of a rank, where they fit)"));
  CHECK(micro_batch({{"train.micro_batch", 16}}) == Pair(16, "flag --set"));
  CHECK(micro_batch({{"train.accumulate", 2}}) == Pair("auto", "default"));
  CHECK(micro_batch({{"stylegan2.max_micro_batch", 16}}) == Pair(16, "auto (32 images of a rank)"));
}

TEST_CASE("HalfBlocksOnAGpuFollowWhatTheUserAskedFor") {
  struct Row {
    std::map<std::string, Json> given;
    std::string amp, mode;
  };
  const std::vector<Row> table = {
      {{}, "fp16", "blocks"},
      {{{"precision.amp", "off"}}, "off", "autocast"},
      {{{"precision.amp", "auto"}}, "auto", "blocks"},
      {{{"precision.amp", "fp16"}}, "fp16", "autocast"},
      {{{"precision.amp", "bf16"}}, "bf16", "autocast"},
      {{{"precision.mode", "blocks"}}, "fp16", "blocks"},
      {{{"precision.mode", "autocast"}}, "off", "autocast"},
      {{{"precision.amp", "auto"}, {"precision.mode", "autocast"}}, "auto", "autocast"},
      {{{"stylegan2.num_fp16_res", 0}}, "off", "autocast"},
      {{{"train.dtype", "float64"}}, "off", "autocast"},
  };
  for (const Row& row : table) {
    Config config = config_of(row.given, "flag --set");
    complete(config, {.on_gpu = true});
    CAPTURE(Json(row.given).dump());
    CHECK(config.get("precision.amp") == row.amp);
    CHECK(config.get("precision.mode") == row.mode);
    CHECK_NOTHROW(check_options(config.read<PrecisionOptions>(),
                                stylegan2::facts(),
                                config.get("train.dtype") == "float64"));
  }
  Config by_preset = config_of({{"precision.amp", "off"}}, "preset stylegan2-tiny");
  complete(by_preset, {.on_gpu = true});
  CHECK(by_preset.get("precision.amp") == "off");
  CHECK(by_preset.get("precision.mode") == "autocast");
}

TEST_CASE("SizesThatNoNetworkHasAreRefused") {
  for (const int64_t good : {8, 48, 64, 1024})
    CHECK_NOTHROW(stylegan2::facts().check_resolution(square_of(good)));
  for (const int64_t bad : {4, 36, 2048})
    CHECK_THROWS_AS(stylegan2::facts().check_resolution(square_of(bad)), UserError);
  for (const Size& good : {Size{256, 128}, Size{320, 448}, Size{8, 64}, Size{2048, 1024}})
    CHECK_NOTHROW(stylegan2::facts().check_resolution(good));
  CHECK_THROWS_WITH(stylegan2::facts().check_resolution({33, 16}),
                    Catch::Contains("data.resolution = 33x16") && Catch::Contains(" 32x16"));
  Config config = config_of({{"ada.pipe", "bgx"}});
  CHECK_THROWS_WITH(complete(config, {.ranks = 1}), Catch::Contains("bgx"));
}
