// SPDX-License-Identifier: Apache-2.0
#include "nn/style/layers.h"
#include "ops/kernels.h"
#include "ops/losses.h"
#include "recipes/stylegan2/networks_of_fixtures.h"
#include "recipes/stylegan2/recipe.h"
#include "support/catch.h"

using namespace gantrain;
using namespace gantrain::stylegan2;

namespace {

constexpr double kTolerance = 5e-5;  // of fixtures' W, images and logits

GeneratorShape small(BlockArchitecture architecture, int64_t resolution, int64_t channels) {
  GeneratorShape s;
  s.mapping.z_dim = 12;
  s.mapping.w_dim = 10;
  s.mapping.num_layers = 2;
  s.synthesis = small_blocks(architecture, resolution, channels);
  return s;
}

// All that starts at 0 is moved, so that every term matters.
void perturb(torch::nn::Module& net) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : net.named_parameters()) {
    const Tensor& p = item.value();
    p.add_(0.1 * normal_like(p, 5, item.key()));
  }
}

}  // namespace

TEST_CASE("PicturesMatchTheReference") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Pair p(name, "io");
    p.G->eval();
    StyleMapping& map = *p.G->mapping;
    Synthesis& draw = *p.G->synthesis;
    const Tensor labels = p.labels("in/c");
    const Tensor w = map.forward(p["in/z"], labels);
    CHECK(scaled_error(w, p["out/ws"]) < kTolerance);
    const Tensor ws = for_all_layers(w, p.G_shape.num_ws());
    const Tensor near = truncated(ws, map.w_avg, 0.7, std::nullopt);
    CHECK(scaled_error(near.select(1, 5), p["out/ws_psi0.7"]) < kTolerance);
    CHECK(scaled_error(truncated(ws, map.w_avg, 0.5, 3), p["out/ws_psi0.5_cutoff3"]) < kTolerance);
    const Tensor mixed = mix_styles(ws.narrow(0, 0, 1), ws.narrow(0, 1, 1), torch::tensor(4));
    for (const bool fused : {false, true}) {
      const NoiseInputs with = stored_noise(), without = no_noise();
      const auto error = [&](const Tensor& styles, const NoiseInputs& noise, const char* key) {
        return scaled_error(draw.forward(styles, noise, fused), p[key]);
      };
      CHECK(error(ws, with, "out/img_const") < kTolerance);
      CHECK(error(ws, without, "out/img_none") < kTolerance);
      CHECK(error(near, with, "out/img_const_psi0.7") < kTolerance);
      CHECK(error(near, without, "out/img_none_psi0.7") < kTolerance);
      CHECK(error(mixed, with, "out/img_const_mix_0_1_at4") < kTolerance);
    }
    CHECK(scaled_error(p.G->forward(p["in/z"], labels), p["out/img_const"]) < kTolerance);
  }
}

TEST_CASE("AGeneratorsTensorsAreTheReferences") {
  for (const std::string name : {"uncond32", "cond32"}) {
    const Pair p(name, "io");
    check_same_layout(stylegan2::Generator(p.G_shape), p.G_tensors);
  }
}

TEST_CASE("ParametersStandInTheReferencesOrder") {
  std::vector<std::string> names;
  for (const auto& item :
       stylegan2::Generator(small(BlockArchitecture::kSkip, 8, 3)).named_parameters())
    names.push_back(item.key());
  const std::vector<std::string> expected = {
      "synthesis.b4.const",
      "synthesis.b4.conv1.weight",
      "synthesis.b4.conv1.noise_strength",
      "synthesis.b4.conv1.bias",
      "synthesis.b4.conv1.affine.weight",
      "synthesis.b4.conv1.affine.bias",
      "synthesis.b4.torgb.weight",
      "synthesis.b4.torgb.bias",
      "synthesis.b4.torgb.affine.weight",
      "synthesis.b4.torgb.affine.bias",
      "synthesis.b8.conv0.weight",
      "synthesis.b8.conv0.noise_strength",
      "synthesis.b8.conv0.bias",
      "synthesis.b8.conv0.affine.weight",
      "synthesis.b8.conv0.affine.bias",
      "synthesis.b8.conv1.weight",
      "synthesis.b8.conv1.noise_strength",
      "synthesis.b8.conv1.bias",
      "synthesis.b8.conv1.affine.weight",
      "synthesis.b8.conv1.affine.bias",
      "synthesis.b8.torgb.weight",
      "synthesis.b8.torgb.bias",
      "synthesis.b8.torgb.affine.weight",
      "synthesis.b8.torgb.affine.bias",
      "mapping.fc0.weight",
      "mapping.fc0.bias",
      "mapping.fc1.weight",
      "mapping.fc1.bias",
  };
  CHECK(names == expected);
}

TEST_CASE("AGeneratorsParameterCountsAreTheReferences") {
  struct Row {
    int64_t resolution, base, layers, parameters, num_ws;
  };
  const std::vector<Row> rows = {
      {64, 32768, 8, 27'032'600, 10},
      {32, 16384, 2, 19'947'539, 8},
      {64, 16384, 2, 22'243'608, 10},
      {128, 16384, 2, 22'949'277, 12},
      {256, 16384, 2, 23'191'522, 14},
      {512, 32768, 2, 28'700'647, 16},
      {1024, 32768, 2, 28'794'124, 18},
      {256, 16384, 8, 24'767'458, 14},
      {512, 32768, 8, 30'276'583, 16},
      {1024, 32768, 8, 30'370'060, 18},
  };
  for (const Row& row : rows) {
    CAPTURE(row.resolution, row.base, row.layers);
    GeneratorShape s;
    s.mapping.num_layers = row.layers;
    s.synthesis = full_blocks(BlockArchitecture::kSkip, row.resolution, row.base);
    const stylegan2::Generator G(s);
    CHECK(count(G.parameters()) == row.parameters);
    CHECK(s.num_ws() == row.num_ws);
    if (row.resolution == 64 && row.layers == 8) CHECK(count(G.buffers()) == 11'632);
  }
}

TEST_CASE("EveryConfigurationGivesPicturesAndGradients") {
  for (const BlockArchitecture architecture : kArchitectures) {
    for (const int64_t resolution : {4, 8, 64}) {
      for (const int64_t channels : {1, 3, 4}) {
        GeneratorShape s = small(architecture, resolution, channels);
        s.mapping.num_layers = channels;
        if (channels != 3) s.mapping.c_dim = 5;
        if (channels == 4) {
          s.mapping.embed_features = 3;
          s.mapping.layer_features = 9;
          s.synthesis.conv_clamp = 256;
        }
        CAPTURE(static_cast<int>(architecture), resolution, channels);
        stylegan2::Generator G(s);
        initialise_style_layers(G, "G", 1);
        const Tensor z = torch::linspace(-2, 2, 36).reshape({3, 12}).sin();
        const Tensor x = G.forward(z, torch::tensor({4, 0, 4}));
        CHECK(x.sizes() == at::IntArrayRef({3, channels, resolution, resolution}));
        CHECK(s.num_ws() == 2 * static_cast<int64_t>(std::log2(resolution)) - 2);
        // A fresh network's noise strength is 0, but constant noise still gives it a gradient.
        x.square().sum().backward();
        check_finite_gradients(G);
      }
    }
  }
}

TEST_CASE("ARectanglesGeneratorIsItsNominalSquaresButForItsPictures") {
  for (const BlockArchitecture architecture : kArchitectures) {
    GeneratorShape s = small(architecture, 32, 3);
    const auto of_square = tensors_of(stylegan2::Generator(s));
    s.synthesis.img_resolution = {64, 32};
    const auto mine = tensors_of(stylegan2::Generator(s));
    CHECK(s.num_ws() == 8);
    REQUIRE(mine.size() == of_square.size());
    for (const auto& [name, tensor] : of_square) {
      CAPTURE(name);
      std::vector<int64_t> expected = tensor.sizes().vec();
      if (name.ends_with("const")) expected.back() *= 2;  // the start and the noise
      REQUIRE(mine.count(name) == 1);
      CHECK(mine.at(name).sizes() == at::IntArrayRef(expected));
    }
  }
}

// The path length penalty differentiates twice. The fused operators of float32 lose no more to
// rounding than the composed ones do, on pictures of any proportions.
TEST_CASE("RectangularPicturesAndTheirSecondDerivativesAreThoseOfFloat64") {
  for (const BlockArchitecture architecture : kArchitectures) {
    GeneratorShape s = small(architecture, 16, 3);
    s.synthesis.img_resolution = {48, 20};
    CAPTURE(static_cast<int>(architecture));
    stylegan2::Generator G(s);
    initialise_style_layers(G, "G", 1);
    perturb(G);
    const auto derivatives = [&](KernelSet set, at::ScalarType type) {
      const WithKernels with(set);
      G.to(type);
      const Tensor z = torch::linspace(-2, 2, 36).reshape({3, 12}).sin().to(type);
      const Tensor ws = for_all_layers(G.mapping->forward(z, {}), s.num_ws());
      const Tensor x = G.synthesis->forward(ws);
      CHECK(x.sizes() == at::IntArrayRef({3, 3, 20, 48}));
      const Tensor y = torch::linspace(-1, 1, x.numel()).to(type).reshape(x.sizes()).mul(50).sin();
      const Tensor lengths = path_lengths(x, ws, y);
      std::vector<Tensor> all = torch::autograd::grad(
          {lengths.square().sum()}, G.synthesis->parameters(), {}, {}, false, true);
      all.push_back(x);
      all.push_back(lengths);
      return all;
    };
    const auto fused = derivatives(KernelSet::kAuto, at::kFloat);
    const auto composed = derivatives(KernelSet::kRef, at::kFloat);
    const auto exact = derivatives(KernelSet::kRef, at::kDouble);
    for (size_t i = 0; i < fused.size(); ++i) {
      CAPTURE(i);
      REQUIRE(fused[i].defined() == exact[i].defined());
      if (!fused[i].defined()) continue;
      const double rounding = scaled_error(composed[i], exact[i]);
      CHECK(rounding < 1e-3);
      CHECK(scaled_error(fused[i], exact[i]) < 1e-5 + 5 * rounding);
    }
  }
}

TEST_CASE("FusedModulationGivesTheSamePictures") {
  const torch::NoGradGuard no_grad;
  for (const BlockArchitecture architecture : kArchitectures) {
    stylegan2::Generator G(small(architecture, 16, 3));
    initialise_style_layers(G, "G", 1);
    perturb(G);
    const Tensor z = torch::linspace(-2, 2, 48).reshape({4, 12}).sin();
    const Tensor plain = G.forward(z, {}, {}, false);
    CHECK(scaled_error(G.forward(z, {}, {}, true), plain) < 1e-5);
  }
}

TEST_CASE("EachConvolutionAsksForItsNoise") {
  const torch::NoGradGuard no_grad;
  GeneratorShape shape = small(BlockArchitecture::kSkip, 16, 3);
  shape.synthesis.img_resolution = {32, 16};
  stylegan2::Generator G(shape);
  initialise_style_layers(G, "G", 1);
  perturb(G);
  const Tensor z = torch::linspace(-2, 2, 24).reshape({2, 12}).sin();
  std::vector<std::pair<int64_t, std::string>> asked;
  const auto zeros = [&](int64_t layer, const Size& size) {
    asked.emplace_back(layer, to_text(size));
    return torch::zeros({2, 1, size.height, size.width});
  };
  const Tensor silent = G.forward(z, {}, zeros);
  CHECK(asked == std::vector<std::pair<int64_t, std::string>>{
                     {0, "8x4"}, {1, "16x8"}, {2, "16x8"}, {3, "32x16"}, {4, "32x16"}});
  CHECK(torch::equal(silent, G.forward(z, {}, no_noise())));
  // What the constant noise holds, drawn, is the same picture; another draw is another one.
  const Tensors all = tensors_of(G);
  const auto constant = [&](int64_t layer, const Size& size) {
    const std::string conv = layer % 2 == 0 ? ".conv1" : ".conv0";
    return all.at("synthesis.b" + std::to_string(size.height) + conv + ".noise_const")
        .reshape({1, 1, size.height, size.width});
  };
  const Tensor usual = G.forward(z, {}, stored_noise());
  CHECK(scaled_error(G.forward(z, {}, constant), usual) < 1e-6);
  CHECK(scaled_error(usual, silent) > 1e-3);
}

TEST_CASE("AWChangesOnlyFromItsLayerOn") {
  // The first torgb shares w 1 with b8.conv0; w 0 goes to b4.conv1 alone, the last to the last rgb.
  const torch::NoGradGuard no_grad;
  stylegan2::Generator G(small(BlockArchitecture::kResnet, 8, 3));
  initialise_style_layers(G, "G", 1);
  const Tensor ws = torch::linspace(-1, 1, 4 * 10).reshape({1, 4, 10});
  std::vector<Tensor> pictures = {G.synthesis->forward(ws)};
  for (int64_t i = 0; i < 4; ++i) {
    Tensor changed = ws.clone();
    changed.select(1, i).add_(1);
    CHECK(scaled_error(G.synthesis->forward(changed), pictures[0]) > 1e-3);
  }
  CHECK_THROWS(G.synthesis->forward(ws.narrow(1, 0, 3)));
}

TEST_CASE("HalfPrecisionBlocksFollowThoseOfFloat32") {
  const torch::NoGradGuard no_grad;
  GeneratorShape s = small(BlockArchitecture::kSkip, 16, 3);
  stylegan2::Generator full(s);
  s.synthesis.num_fp16_res = 4;
  stylegan2::Generator half(s);
  initialise_style_layers(full, "G", 1);
  initialise_style_layers(half, "G", 1);
  const Tensor z = torch::ones({1, 12});
  const double error = scaled_error(half.forward(z, {}), full.forward(z, {}));
  CHECK(error < 5e-3);
  CHECK(error > 1e-6);
  CHECK(half.synthesis->blocks[1]->half);
  CHECK_FALSE(half.synthesis->blocks[0]->half);
}

TEST_CASE("AGeneratorComputesInItsParametersType") {
  const torch::NoGradGuard no_grad;
  stylegan2::Generator G(small(BlockArchitecture::kSkip, 16, 3));
  initialise_style_layers(G, "G", 1);
  const Tensor z = torch::ones({1, 12});
  const Tensor single = G.forward(z, {});
  to_device(G, at::kCPU, at::kDouble);
  const Tensor precise = G.forward(z, {});
  CHECK(precise.scalar_type() == at::kDouble);
  CHECK(scaled_error(single, precise) < 1e-5);
}

TEST_CASE("InitialWeightsDependOnTheSeedAlone") {
  const StyleBlocks blocks = small_blocks(BlockArchitecture::kSkip, 8, 3);
  const auto sha = [&](uint64_t seed, const char* player) {
    GeneratorShape s;
    s.mapping.z_dim = s.mapping.w_dim = 8;
    s.synthesis = blocks;
    stylegan2::Generator G(s);
    torch::rand({static_cast<int64_t>(seed) + 1});
    initialise_style_layers(G, player, seed);
    return sha256_of(state_of(G));
  };
  CHECK(sha(1, "G") == sha(1, "G"));
  CHECK(sha(1, "G") != sha(2, "G"));
  CHECK(sha(1, "G") != sha(1, "D"));
}

TEST_CASE("LogitsMatchTheReference") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"uncond32", "cond32"}) {
    CAPTURE(name);
    Pair p(name, "io");
    p.D->eval();
    const Tensor real = p.D->forward(p["in/real"], p.labels("in/real_c"));
    const Tensor fake = p.D->forward(p["out/img_const"], p.labels("in/c"));
    CHECK(scaled_error(real, p["out/D_real_logits"]) < 5e-5);
    CHECK(scaled_error(fake, p["out/D_fake_logits"]) < 5e-5);
  }
}

TEST_CASE("ADiscriminatorsTensorsAreTheReferences") {
  for (const std::string name : {"uncond32", "cond32"}) {
    const Pair p(name, "io");
    check_same_layout(StyleDiscriminator(p.D_shape), p.D_tensors);
  }
}

TEST_CASE("TheMeanOfWMovesAsInTheReference") {
  for (const std::string name : {"uncond32", "cond32"}) {
    Pair p(name, "loss");
    StyleMapping& map = *p.G->mapping;
    const Tensor before = map.w_avg.clone();
    const Tensor w = map.forward(p["in/z"], p.labels("in/c"));
    CHECK(torch::equal(map.w_avg, before));
    move_w_average_(map.w_avg, w.mean(0), map.shape.w_avg_beta);
    CHECK(scaled_error(map.w_avg, p["Gmain/w_avg_after"]) < 5e-5);
    CHECK_FALSE(map.w_avg.requires_grad());
  }
}
