// SPDX-License-Identifier: Apache-2.0
// What StyleGAN2 computes in when it is asked for less than float32, by autocast and in its own
// way.
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/options.h"
#include "recipes/stylegan2/recipe.h"
#include "support/computed_text.h"
#include "support/phase_checks.h"
#include "train/cpu_precision/cpu_precision.h"

using namespace gantrain;
using at::Tensor;

namespace {

StepOnCpu tiny(std::map<std::string, Json> changes) {
  changes.merge(std::map<std::string, Json>{{"data.resolution", 16},
                                            {"train.batch", 4},
                                            {"stylegan2.channel_base", 128},
                                            {"ada.mode", "fixed"},
                                            {"ada.p", 0.5}});
  return {stylegan2::row(), step_config(stylegan2::facts(), stylegan2::tiny_run(changes))};
}

std::vector<Computed> computed_by(const std::map<std::string, Json>& changes) {
  StepOnCpu step = tiny(changes);
  return gantrain::computed_by(step, {4, 3, 16, 16}, 4);
}

bool has(const std::vector<Computed>& all, const Computed& one) {
  return std::count(all.begin(), all.end(), one) == 1;
}

const char* const kStyles = "latents and styles scale everything else";
const char* const kLast = "the last block: statistics of the batch, and scores";

}  // namespace

TEST_CASE("UnderAutocastStyleGan2IsLoweredButForItsIslands") {
  for (const auto& [amp, type] : {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    CAPTURE(amp);
    const std::vector<Computed> all =
        computed_by({{"precision.amp", amp}, {"precision.initial_scale", 128}});
    for (const char* block :
         {"G.synthesis.b4", "G.synthesis.b8", "G.synthesis.b16", "D.b8", "D.b16"}) {
      CAPTURE(block);
      CHECK(has(all, {block, type, ""}));
      CHECK(has(all, {block, at::kFloat, "a penalty"}));
    }
    CHECK(has(all, {"G.mapping", at::kFloat, kStyles}));
    CHECK(has(all, {"D.b4", at::kFloat, kLast}));
    CHECK(all.size() == 5 * 2 + 4);  // the last two in penalties too
  }
}

TEST_CASE("WithBlocksTheTopResolutionsAreHalfAndPenaltiesToo") {
  const std::vector<Computed> all = computed_by(
      {{"precision.amp", "fp16"}, {"precision.mode", "blocks"}, {"stylegan2.num_fp16_res", 1}});
  CHECK(all == std::vector<Computed>{{"G.mapping", at::kFloat, kStyles},
                                     {"G.synthesis.b4", at::kFloat, ""},
                                     {"G.synthesis.b8", at::kFloat, ""},
                                     {"G.synthesis.b16", at::kHalf, ""},
                                     {"D.b16", at::kHalf, ""},
                                     {"D.b8", at::kFloat, ""},
                                     {"D.b4", at::kFloat, kLast}});
}

TEST_CASE("ABlockThatIsKeptInFloat32IsNoHalfBlock") {
  const std::vector<Computed> all = computed_by({{"precision.amp", "fp16"},
                                                 {"precision.mode", "blocks"},
                                                 {"precision.keep_float32", "D.b16"}});
  CHECK(has(all, {"D.b16", at::kFloat, "precision.keep_float32"}));
  CHECK(has(all, {"D.b8", at::kHalf, ""}));
  CHECK(has(all, {"G.synthesis.b16", at::kHalf, ""}));
}

TEST_CASE("OnlyFloat16IsClampedAndTheModelSaysSo") {
  const auto model = [](const std::map<std::string, Json>& changes) {
    return tiny(changes)->recipe().model()["synthesis_kwargs"];
  };
  CHECK(model({})["conv_clamp"].is_null());
  CHECK(model({{"precision.amp", "bf16"}})["conv_clamp"].is_null());
  CHECK(model({{"precision.amp", "fp16"}})["conv_clamp"] == 256);
  CHECK(model({{"precision.amp", "fp16"}})["num_fp16_res"] == 0);
  CHECK(model({{"precision.amp", "fp16"}, {"precision.mode", "blocks"}})["num_fp16_res"] == 4);
}

// The reference's networks with half-precision blocks follow those without: Karras et al. 2020b,
// app. C, "no effect on quality".
TEST_CASE("HalfBlocksOfTheReferencesNetworksFollowFloat32") {
  const torch::NoGradGuard no_grad;
  stylegan2::Pair pair("uncond32", "io");
  stylegan2::GeneratorShape g = pair.G_shape;
  StyleDiscriminatorShape d = pair.D_shape;
  g.synthesis.num_fp16_res = d.blocks.num_fp16_res = 4;
  g.synthesis.conv_clamp = d.blocks.conv_clamp = 256;
  stylegan2::Generator G(g);
  StyleDiscriminator D(d);
  load_into(G, pair.G_tensors, "G");
  load_into(D, pair.D_tensors, "D");
  const Tensor z = torch::sin(torch::arange(4 * g.mapping.z_dim, at::kFloat)).reshape({4, -1});
  const Tensor full = pair.G->forward(z, {}), half = G.forward(z, {});
  CHECK(half.scalar_type() == at::kFloat);
  CHECK(scaled_error(half, full) < 5e-3);
  CHECK(scaled_error(half, full) > 1e-6);
  CHECK(scaled_error(D.forward(full), pair.D->forward(full)) < 1e-2);
}

TEST_CASE("ARecordingSeesTheConvolutionsThatMayBeLoweredAndNoOthers") {
  StepOnCpu step = tiny({{"precision.amp", "auto"}});
  const ProductRecord record = record_products(*step, {{0, 4, 4, {16, 16}}});
  for (const char* text : {"conv2d 8x4x4 8x8x3x3 p1x1",    // G.b4.conv1
                           "conv2d 8x8x8 3x8x1x1",         // G.b8.torgb
                           "conv2d 8x16x16 8x8x3x3 p1x1",  // G.b16.conv1, D.b16.conv0
                           "conv2d 3x16x16 8x3x1x1"}) {    // D.b16.fromrgb
    CAPTURE(text);
    REQUIRE(record.count(*product_from(text)) == 1);
    CHECK(record.at(*product_from(text)).samples == 4);
  }
  for (const auto& [product, uses] : record) {
    CAPTURE(to_text(product));
    CHECK(product.kind != Product::Kind::kLinear);  // styles, scores
    CHECK(product.input[0] != 9);                   // D.b4: with the deviation of the batch
  }
}
