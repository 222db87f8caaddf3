// SPDX-License-Identifier: Apache-2.0
// What PGGAN's networks compute in when they are asked for less than float32.
#include <catch2/catch.hpp>

#include "computed_text.h"
#include "core/forward_precision.h"
#include "recipes/pggan/losses.h"
#include "recipes/pggan/networks.h"
#include "tensor_checks.h"

using namespace gantrain;
using at::Tensor;

namespace {

struct Pair {
  std::shared_ptr<pggan::Generator> G;
  std::shared_ptr<ProgressiveDiscriminator> D;

  explicit Pair(bool fused) {
    pggan::Shape shape;
    shape.resolution = 16;
    shape.net = {7, 128, 1, 8, fused};
    G = std::make_shared<pggan::Generator>(shape);
    D = std::make_shared<ProgressiveDiscriminator>(pggan::discriminator_shape(shape));
    pggan::initialise(*G, "G", 5);
    pggan::initialise(*D, "D", 5);
  }
};

const Level kFading{16, 0.3};

Tensor latents() { return torch::sin(torch::arange(28, at::kFloat)).reshape({4, 7}); }

struct Pass {
  Tensor pictures, scores;
  std::vector<Computed> computed;
};

Pass pass(const Pair& nets, const ForwardPrecision& precision) {
  Pass result;
  const AutocastScope lowered(precision, at::kCPU, &result.computed);
  {
    const BlockScope named("G");
    result.pictures = nets.G->forward(latents(), kFading);
  }
  const BlockScope named("D");
  result.scores = nets.D->forward(result.pictures, kFading);
  return result;
}

}  // namespace

TEST_CASE("EveryBlockOfPgganIsLoweredButForTheLastOfD") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const bool fused : {true, false}) {
      const Pair nets(fused);
      const Pass half = pass(nets, {type, {}}), full = pass(nets, {});
      CAPTURE(c10::toString(type), fused);
      CHECK(half.pictures.scalar_type() == at::kFloat);
      CHECK(half.scores.scalar_type() == at::kFloat);
      CHECK(scaled_error(half.pictures, full.pictures) < 5e-2);
      CHECK(scaled_error(half.pictures, full.pictures) > 1e-5);
      std::vector<std::string> blocks;
      for (const Computed& one : half.computed) {
        CAPTURE(one.block);
        CHECK(one.type == (one.block == "D.4x4" ? at::kFloat : type));
        CHECK(one.why.empty() == (one.block != "D.4x4"));
        blocks.push_back(one.block);
      }
      CHECK(blocks == std::vector<std::string>{"G.4x4",
                                               "G.8x8",
                                               "G.ToRGB_lod1",
                                               "G.16x16",
                                               "G.ToRGB_lod0",
                                               "D.FromRGB_lod0",
                                               "D.16x16",
                                               "D.FromRGB_lod1",
                                               "D.8x8",
                                               "D.4x4"});
    }
  }
}

TEST_CASE("LossesOfPgganUnderAutocastReachEveryWeightInFloat32") {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const Pair nets(true);
    const ForwardPrecision precision{type, {}};
    std::vector<Computed> computed;
    DiscriminatorLoss d;
    {
      const AutocastScope lowered(precision, at::kCPU, &computed);
      const auto D = [&](const Tensor& x) { return nets.D->forward(x, kFading); };
      const Tensor fake = nets.G->forward(latents(), kFading).detach();
      const Tensor real = torch::sin(torch::arange(fake.numel(), at::kFloat)).reshape(fake.sizes());
      d = wgan_gp_d(D, real, fake, torch::full({4, 1, 1, 1}, 0.4), {});
    }
    CHECK(d.loss.scalar_type() == at::kFloat);
    d.loss.backward();
    for (const auto& item : nets.D->named_parameters()) {
      CAPTURE(item.key(), c10::toString(type));
      if (!nets.D->active(item.key(), 16, true)) continue;
      REQUIRE(item.value().grad().defined());
      CHECK(item.value().grad().scalar_type() == at::kFloat);
      CHECK(item.value().grad().isfinite().all().item<bool>());
    }
    const Computed penalty{"16x16", at::kFloat, "a penalty"}, loss{"16x16", type, ""};
    CHECK(std::count(computed.begin(), computed.end(), penalty) == 1);
    CHECK(std::count(computed.begin(), computed.end(), loss) == 1);
  }
}
