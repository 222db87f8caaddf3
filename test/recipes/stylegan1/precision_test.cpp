// SPDX-License-Identifier: Apache-2.0
// What StyleGAN v1's generator computes in when it is asked for less than float32.
#include <catch2/catch.hpp>

#include "core/forward_precision.h"
#include "recipes/stylegan1/networks.h"
#include "support/computed_text.h"
#include "support/tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

std::shared_ptr<stylegan1::Generator> small() {
  stylegan1::Shape shape;
  shape.resolution = 16;
  shape.net.latent_size = shape.net.mapping_fmaps = shape.net.dlatent_size = 8;
  shape.net.mapping_layers = 2;
  shape.net.fmap_base = 128;
  shape.net.fmap_max = 8;
  auto G = std::make_shared<stylegan1::Generator>(shape);
  stylegan1::initialise(*G, "G", 5);
  const torch::NoGradGuard no_grad;
  for (const auto& layer : G->synthesis->layers) layer->noise_weight->weight.normal_();
  return G;
}

}  // namespace

TEST_CASE("ConvolutionsOfStyleGan1AreLoweredAndStylesAreNot") {
  const StageLevel fading{16, 0.3};
  const Tensor z = torch::sin(torch::arange(32, at::kFloat)).reshape({4, 8});
  const auto G = small();
  const Tensor full = G->forward(z, {}, fading, stored_noise());
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const ForwardPrecision precision{type, {}};
    std::vector<Computed> computed;
    Tensor pictures;
    {
      const AutocastScope lowered(precision, at::kCPU, &computed);
      const BlockScope named("G");
      pictures = G->forward(z, {}, fading, stored_noise());
    }
    CAPTURE(c10::toString(type));
    CHECK(pictures.scalar_type() == at::kFloat);
    CHECK(scaled_error(pictures, full) < 5e-2);
    CHECK(scaled_error(pictures, full) > 1e-5);
    std::vector<std::string> autocast_blocks;
    for (const Computed& one : computed) {
      const bool style = one.block == "G.mapping" || one.block.ends_with("StyleMod") ||
                         one.block.ends_with("Const");
      CAPTURE(one.block);
      CHECK(one.type == (style ? at::kFloat : type));
      if (!style) autocast_blocks.push_back(one.block);
    }
    CHECK(autocast_blocks == std::vector<std::string>{"G.synthesis.4x4.Conv",
                                                      "G.synthesis.8x8.Conv0_up",
                                                      "G.synthesis.8x8.Conv1",
                                                      "G.synthesis.ToRGB_lod1",
                                                      "G.synthesis.16x16.Conv0_up",
                                                      "G.synthesis.16x16.Conv1",
                                                      "G.synthesis.ToRGB_lod0"});
    for (const Tensor& p : G->parameters()) p.mutable_grad() = Tensor();
    pictures.square().mean().backward();
    for (const auto& item : G->named_parameters()) {
      CAPTURE(item.key());
      if (!G->active(item.key(), 16, true)) continue;
      REQUIRE(item.value().grad().defined());
      CHECK(item.value().grad().scalar_type() == at::kFloat);
      CHECK(item.value().grad().isfinite().all().item<bool>());
    }
  }
}
