// SPDX-License-Identifier: Apache-2.0
#include "recipes/r3gan/options.h"

#include <functional>

#include "recipes/completed_config.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "util/error.h"

using namespace gantrain;
using Catch::Contains;
using r3gan::Options;
using r3gan::stage_sizes;

namespace {

using Sizes = std::vector<int64_t>;

Config config_of(const std::map<std::string, Json>& values, const std::string& origin = "preset") {
  return run_config(r3gan::facts(), values, origin);
}

Config of_preset(const std::string& name,
                 const std::string& init_from = "",
                 const Site& site = {}) {
  Config config = config_of({{"run.init_from", init_from}}, "flag --init-from");
  for (const PresetLayer& layer : preset_layers(name)) {
    for (const auto& [section, values] : layer.values.items()) {
      if (section != "recipe" && section != "save" && section != "samples" && section != "metrics")
        config.set_tree({{section, values}}, "preset " + name);
    }
  }
  r3gan::facts().complete(config, site);
  return config;
}

}  // namespace

// The official code has no other limit of the half-life than its own ramp.
TEST_CASE("TheAverageIsAsLongAsThePaperHasIt") {
  CHECK(of_preset("r3gan-cifar").read<EmaOptions>().rampup == 0);
  CHECK(of_preset("r3gan-imagenet64").read<EmaOptions>().rampup == 0);
  // A run that was begun with another value keeps it.
  CHECK(of_preset("r3gan-cifar", "", {.goes_on = true}).read<EmaOptions>().rampup == 0.05);
}

// Its burn-in is for weights that were drawn.
TEST_CASE("ARunFromOtherWeightsBeginsWhereTheRampsEnd") {
  const Config config = of_preset("r3gan-cifar", "model.safetensors");
  const auto o = config.read<Options>();
  CHECK(o.gamma == Scheduled(0.005));
  CHECK(o.ada.p == Scheduled(0.55));
  for (const PlayerOptions& player : {o.G, o.D}) {
    CHECK(player.adam.lr == Scheduled(5e-5));
    CHECK(player.adam.beta2 == Scheduled(0.99));
  }
  CHECK(config.read<EmaOptions>().half_life.at(0) == 5'000'000);
  CHECK(config.origin("G.adam.lr") == "auto (run.init_from)");
  // What a user gives stays, and what a run was begun with.
  Config given = config_of({{"G.adam.lr", {{"from", 1}, {"to", 2}, {"kimg", 3}}},
                            {"run.init_from", "model.safetensors"}},
                           "flag");
  r3gan::facts().complete(given, {});
  CHECK(given.read<Options>().G.adam.lr.at(0) == 1);
  // A ramp that follows the batch is none of the user's.
  Config scaled = config_of({{"G.adam.lr", {{"from", 4}, {"to", 2}, {"kimg", 3}}}}, "--lr-scale");
  scaled.set("run.init_from", "model.safetensors", "flag");
  r3gan::facts().complete(scaled, {});
  CHECK(scaled.read<Options>().G.adam.lr == Scheduled(2));
  const Config later = of_preset("r3gan-cifar", "model.safetensors", {.goes_on = true});
  CHECK(later.read<Options>().G.adam.lr == r3gan::burn_in(2e-4, 5e-5));
}

TEST_CASE("AdaptiveAugmentationIsRefusedForItSeesNothing") {
  Config config = config_of({{"ada.mode", "ada"}}, "flag --aug");
  CHECK_THROWS_WITH(r3gan::facts().complete(config, {}),
                    Contains("ada.mode = ada (flag --aug)") && Contains("ada.mode=fixed"));
}

TEST_CASE("WidthsFollowTheResolution") {
  CHECK(stage_sizes({}, 32).widths == Sizes{768, 768, 768, 768});
  CHECK(stage_sizes({}, 256).widths == Sizes{768, 768, 768, 768, 384, 192, 96});
  CHECK(stage_sizes({}, 256).cardinalities == Sizes{96, 96, 96, 96, 48, 24, 12});
  CHECK(stage_sizes({}, 16).blocks == Sizes{2, 2, 2});
}

TEST_CASE("TablesNameSizesByResolution") {
  Options o;
  o.width = "8:24,16";
  o.cardinality = "4:2,4";
  o.blocks = "16:1,3";
  const auto sizes = stage_sizes(o, 16);
  CHECK(sizes.widths == Sizes{16, 24, 16});
  CHECK(sizes.cardinalities == Sizes{2, 4, 4});
  CHECK(sizes.blocks == Sizes{3, 3, 1});
  o.cardinality = "5";
  CHECK_THROWS_WITH(stage_sizes(o, 16), Contains("r3gan.cardinality") && Contains("5 groups"));
  o.cardinality = "4:2";
  CHECK_THROWS_WITH(stage_sizes(o, 16), Contains("no value for 8 pixels"));
  o.cardinality = "auto";
  o.width = "2.5";
  CHECK_THROWS_WITH(stage_sizes(o, 16), Contains("r3gan.width") && Contains("2.5"));
  o.width = "wide";
  CHECK_THROWS_WITH(stage_sizes(o, 16), Contains("r3gan.width"));
}

TEST_CASE("GammaAndTheAverageAreChosenUnlessGiven") {
  for (const auto& [resolution, gamma] : {std::pair{64, 2.0}, {256, 150.0}}) {
    Config config = config_of({{"data.resolution", resolution}});
    const auto lines = r3gan::facts().complete(config, {});
    CHECK(config.read<Options>().gamma == r3gan::burn_in(gamma, gamma / 10));
    CHECK(config.origin("r3gan.gamma").starts_with("auto"));
    CHECK(config.read<EmaOptions>().half_life.at(20'000'000) == 500'000);
    CHECK_FALSE(lines.empty());
  }
  Config given = config_of({{"r3gan.gamma", 3}, {"ema.half_life", 7}}, "flag");
  r3gan::facts().complete(given, {});
  CHECK(given.get("r3gan.gamma") == 3);
  CHECK(given.read<EmaOptions>().half_life.at(0) == 7000);
}

TEST_CASE("ThePaperMixesItsOwnTransformsAndAPipeReplacesThem") {
  Config own = config_of({});
  r3gan::facts().complete(own, {});
  CHECK(own.get("augment.cutout") == 1);
  CHECK(own.get("augment.hue") == 0.5);
  CHECK(own.get("augment.noise") == 0);
  Config pipe = config_of({{"ada.pipe", "blit"}}, "flag");
  r3gan::facts().complete(pipe, {});
  CHECK(pipe.get("augment.cutout") == 0);
  CHECK(pipe.get("augment.hue") == 0);
  CHECK(pipe.get("augment.xflip") == 1);
}

TEST_CASE("OnAGpuTheTopResolutionsAreHalf") {
  Config config = config_of({});
  r3gan::facts().complete(config, {.on_gpu = true});
  CHECK(config.get("precision.mode") == "blocks");
  CHECK(config.get("precision.amp") == "bf16");
}

TEST_CASE("BlocksAreBfloat16WhicheverHalfPrecisionIsAskedFor") {
  for (const char* amp : {"auto", "fp16", "bf16"}) {
    CAPTURE(amp);
    Config config = config_of({{"precision.amp", amp}, {"precision.mode", "blocks"}}, "flag");
    r3gan::facts().complete(config, {});
    CHECK(config.get("precision.amp") == "bf16");
    const auto precision = config.read<PrecisionOptions>();
    CHECK_NOTHROW(check_options(precision, r3gan::facts(), false));
    CHECK(compute_type(precision, false) == ComputeType::kBfloat16);
  }
  Config off = config_of({{"precision.amp", "fp16"}}, "flag");
  r3gan::facts().complete(off, {});
  CHECK(off.get("precision.amp") == "fp16");
}

// The official presets' schedules of rates, moments, penalty, average and augmentation.
TEST_CASE("PresetsFollowTheReferencesSchedules") {
  CoveredFixture f("r3gan_schedules");
  for (const auto& [preset, official] : {std::pair{"r3gan-cifar", "CIFAR10"},
                                         {"r3gan-ffhq256", "FFHQ-256"},
                                         {"r3gan-imagenet64", "ImageNet-64"}}) {
    const Config config = of_preset(preset);
    const auto o = config.read<Options>();
    const auto half_life = config.read<EmaOptions>().half_life;
    const std::string prefix = std::string(official) + "/";
    const at::Tensor images = f[prefix + "nimg"];
    const auto is = [&](const std::string& name, const std::function<double(int64_t)>& at) {
      CAPTURE(preset, name);
      at::Tensor values = torch::empty_like(images);
      for (int64_t i = 0; i < images.numel(); ++i)
        values[i] = at(static_cast<int64_t>(images[i].item<double>()));
      CHECK(scaled_error(values, f[prefix + name]) < 1e-12);
    };
    for (const PlayerOptions& player : {o.G, o.D}) {
      is("lr", [&](int64_t n) { return player.adam.lr.at(n); });
      is("beta2", [&](int64_t n) { return player.adam.beta2.at(n); });
    }
    is("gamma", [&](int64_t n) { return o.gamma->at(n); });
    is("ema", [&](int64_t n) { return half_life.at(n); });
    is("aug", [&](int64_t n) { return o.ada.p.at(n); });
  }
  CHECK(f.unused().empty());
}

TEST_CASE("PresetsHaveTheReferencesNetworks") {
  const auto sizes = [](const char* preset) {
    const Config config = of_preset(preset);
    const auto size = Value<Size>::from_text(text_of(config.get("data.resolution")));
    return stage_sizes(config.read<Options>(), size->width);
  };
  CHECK(sizes("r3gan-cifar").widths == Sizes(4, 768));
  CHECK(sizes("r3gan-ffhq64").cardinalities == Sizes{96, 96, 96, 96, 48});
  CHECK(sizes("r3gan-ffhq256").widths == Sizes{768, 768, 768, 768, 384, 192, 96});
  CHECK(sizes("r3gan-imagenet32").widths == Sizes(4, 1536));
  CHECK(sizes("r3gan-imagenet32").cardinalities == Sizes(4, 96));
  CHECK(sizes("r3gan-imagenet64").widths == Sizes(5, 1536));
  CHECK(sizes("r3gan-imagenet64").cardinalities == Sizes(5, 96));
}
