// SPDX-License-Identifier: Apache-2.0

#include <ATen/autocast_mode.h>

#include "nn/style/layers.h"
#include "nn/style/network_checks.h"
#include "ops/kernels.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

StyleDiscriminatorShape small(BlockArchitecture architecture,
                              int64_t resolution,
                              int64_t channels) {
  StyleDiscriminatorShape s;
  s.blocks = small_blocks(architecture, resolution, channels);
  return s;
}

Tensor pictures(int64_t count, int64_t channels, int64_t resolution) {
  return normal(Stream(3, "pictures"), {0, 1, count}, {channels, resolution, resolution});
}

}  // namespace

TEST_CASE("ADiscriminatorsParameterCountsAreTheReferences") {
  struct Row {
    int64_t resolution, base, parameters;
  };
  const std::vector<Row> rows = {
      {64, 32768, 26'488'833},
      {32, 16384, 21'507'073},
      {64, 16384, 23'407'361},
      {128, 16384, 23'882'369},
      {256, 16384, 24'001'089},
      {512, 32768, 28'982'849},
      {1024, 32768, 29'012'513},
  };
  for (const Row& row : rows) {
    CAPTURE(row.resolution, row.base);
    StyleDiscriminatorShape s;
    s.blocks = full_blocks(BlockArchitecture::kResnet, row.resolution, row.base);
    const StyleDiscriminator D(s);
    CHECK(count(D.parameters()) == row.parameters);
    if (row.base == 32768 && row.resolution == 64) CHECK(count(D.buffers()) == 288);
  }
}

TEST_CASE("EveryConfigurationGivesOneLogitEachAndGradients") {
  using Size = std::pair<int64_t, int64_t>;  // pixels, channels
  for (const BlockArchitecture architecture : kArchitectures) {
    for (const auto& [resolution, channels] : {Size(4, 3), Size(8, 1), Size(8, 3), Size(64, 4)}) {
      StyleDiscriminatorShape s = small(architecture, resolution, channels);
      if (channels != 3) s.c_dim = 5;
      if (channels == 4) {
        s.cmap_dim = 7;
        s.blocks.conv_clamp = 256;
        s.mbstd_num_channels = 2;
      }
      CAPTURE(static_cast<int>(architecture), resolution, channels);
      StyleDiscriminator D(s);
      initialise_style_layers(D, "D", 1);
      const Tensor x = pictures(4, channels, resolution);
      const Tensor logits = D.forward(x, torch::tensor({4, 0, 4, 1}));
      CHECK(logits.sizes() == at::IntArrayRef({4, 1}));
      logits.square().sum().backward();
      check_finite_gradients(D);
    }
  }
}

namespace {

// The tensors whose shape depends on the start and on the pictures' size; all others are those of
// the square of the same nominal resolution.
void check_layout_of_nominal_square(const torch::nn::Module& rectangle,
                                    const torch::nn::Module& of_square,
                                    const std::set<std::string>& differing) {
  const auto mine = tensors_of(rectangle), its = tensors_of(of_square);
  std::set<std::string> seen;
  REQUIRE(mine.size() == its.size());
  for (const auto& [name, tensor] : its) {
    CAPTURE(name);
    REQUIRE(mine.count(name) == 1);
    if (mine.at(name).sizes() != tensor.sizes()) seen.insert(name);
  }
  CHECK(seen == differing);
}

}  // namespace

TEST_CASE("ARectanglesDiscriminatorIsItsNominalSquaresButForTheDenseLayer") {
  for (const BlockArchitecture architecture : kArchitectures) {
    StyleDiscriminatorShape s = small(architecture, 32, 3);
    const StyleDiscriminator of_square(s);
    s.blocks.img_resolution = {64, 32};
    StyleDiscriminator D(s);
    check_layout_of_nominal_square(D, of_square, {"b4.fc.weight"});
    CHECK(D.b4->fc->weight.sizes() == at::IntArrayRef({16, 16 * 8 * 4}));
  }
}

TEST_CASE("RectangularPicturesGiveOneLogitEachAndGradients") {
  for (const BlockArchitecture architecture : kArchitectures) {
    for (const Size& size : {Size{32, 16}, Size{10, 28}, Size{12, 12}}) {
      StyleDiscriminatorShape s = small(architecture, 16, 3);
      s.blocks.img_resolution = size;
      CAPTURE(static_cast<int>(architecture), to_text(size));
      StyleDiscriminator D(s);
      initialise_style_layers(D, "D", 1);
      const Tensor x = normal(Stream(3, "pictures"), {0, 1, 4}, {3, size.height, size.width});
      const Tensor logits = D.forward(x);
      CHECK(logits.sizes() == at::IntArrayRef({4, 1}));
      logits.square().sum().backward();
      check_finite_gradients(D);
    }
  }
}

// R1 differentiates the gradient by the picture once more. The fused operators of float32 lose no
// more to rounding than the composed ones do, on pictures of any proportions.
TEST_CASE("SecondDerivativesOfRectanglesAreThoseOfFloat64") {
  StyleDiscriminatorShape s = small(BlockArchitecture::kResnet, 16, 3);
  s.blocks.img_resolution = {48, 20};
  StyleDiscriminator D(s);
  initialise_style_layers(D, "D", 1);
  const auto derivatives = [&](KernelSet set, at::ScalarType type) {
    const WithKernels with(set);
    D.to(type);
    const Tensor x = normal(Stream(3, "pictures"), {0, 1, 4}, {3, 20, 48}).to(type);
    x.requires_grad_(true);
    const Tensor slope = torch::autograd::grad(
        {D.forward(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    std::vector<Tensor> all = D.parameters();
    all.push_back(x);
    std::vector<Tensor> second =
        torch::autograd::grad({slope.square().sum()}, all, {}, {}, false, /*allow_unused=*/true);
    for (size_t i = 0; i < second.size(); ++i) {
      if (!second[i].defined()) second[i] = torch::zeros_like(all[i]);
    }
    second.push_back(slope);
    return second;
  };
  const auto fused = derivatives(KernelSet::kAuto, at::kFloat);
  const auto composed = derivatives(KernelSet::kRef, at::kFloat);
  const auto exact = derivatives(KernelSet::kRef, at::kDouble);
  for (size_t i = 0; i < fused.size(); ++i) {
    CAPTURE(i);
    const double rounding = scaled_error(composed[i], exact[i]);
    CHECK(rounding < 1e-3);
    CHECK(scaled_error(fused[i], exact[i]) < 1e-5 + 5 * rounding);
  }
}

TEST_CASE("UnderAutocastLogitsAreFloat32") {
  const torch::NoGradGuard no_grad;
  StyleDiscriminator D(small(BlockArchitecture::kResnet, 16, 3));
  initialise_style_layers(D, "D", 1);
  const Tensor x = pictures(4, 3, 16), logits = D.forward(x);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const Tensor lowered = D.forward(x);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  CHECK(lowered.scalar_type() == at::kFloat);
  const double error = scaled_error(lowered, logits);
  CHECK(error > 1e-5);
  CHECK(error < 5e-2);
}

TEST_CASE("SamplesHalfABatchApartNormaliseEachOther") {
  const torch::NoGradGuard no_grad;
  StyleDiscriminatorShape s = small(BlockArchitecture::kResnet, 8, 3);
  s.mbstd_group_size = 2;
  StyleDiscriminator D(s);
  initialise_style_layers(D, "D", 1);
  // Pictures of very different contrast; groups of 2 in a batch of 4 are {0, 2} and {1, 3}.
  const Tensor x = pictures(4, 3, 8) * torch::tensor({1.0, 2.0, 4.0, 8.0}).reshape({4, 1, 1, 1});
  const Tensor logits = D.forward(x);
  const auto reordered = [&](std::vector<int64_t> order) {
    const Tensor index = torch::tensor(order);
    return scaled_error(D.forward(x.index_select(0, index)), logits.index_select(0, index));
  };
  CHECK(reordered({2, 1, 0, 3}) < 1e-5);
  CHECK(reordered({1, 0, 3, 2}) < 1e-5);
  CHECK(reordered({1, 0, 2, 3}) > 1e-3);
  CHECK(reordered({0, 2, 1, 3}) > 1e-3);
}

TEST_CASE("AGroupIsTheLargestDivisorOfTheBatchUpToItsSize") {
  const torch::NoGradGuard no_grad;
  const auto logits = [](int64_t group, int64_t batch) {
    StyleDiscriminatorShape s = small(BlockArchitecture::kResnet, 8, 3);
    s.mbstd_group_size = group;
    StyleDiscriminator D(s);
    initialise_style_layers(D, "D", 1);
    return D.forward(pictures(batch, 3, 8));
  };
  CHECK(torch::equal(logits(4, 6), logits(3, 6)));
  CHECK_FALSE(torch::equal(logits(4, 6), logits(2, 6)));
  CHECK(torch::equal(logits(4, 2), logits(2, 2)));
  CHECK(torch::equal(logits(4, 5), logits(1, 5)));
}

TEST_CASE("FrozenLayersAreBuffersOfTheSameNames") {
  struct Row {
    BlockArchitecture architecture;
    int64_t freeze;
    std::set<std::string> frozen;
  };
  const std::vector<Row> rows = {
      {BlockArchitecture::kResnet, 1, {"b32.fromrgb"}},
      {BlockArchitecture::kResnet, 4, {"b32.fromrgb", "b32.conv0", "b32.conv1", "b32.skip"}},
      {BlockArchitecture::kResnet,
       6,
       {"b32.fromrgb", "b32.conv0", "b32.conv1", "b32.skip", "b16.conv0", "b16.conv1"}},
      {BlockArchitecture::kSkip, 4, {"b32.fromrgb", "b32.conv0", "b32.conv1", "b16.fromrgb"}},
      {BlockArchitecture::kOrig, 4, {"b32.fromrgb", "b32.conv0", "b32.conv1", "b16.conv0"}},
  };
  for (const Row& row : rows) {
    StyleDiscriminatorShape s = small(row.architecture, 32, 3);
    const StyleDiscriminator free(s);
    s.freeze_layers = row.freeze;
    StyleDiscriminator D(s);
    std::set<std::string> moved;
    for (const std::string& name : names_of(free.named_parameters())) {
      if (D.named_buffers().contains(name)) moved.insert(name.substr(0, name.rfind('.')));
    }
    CHECK(moved == row.frozen);
    const std::vector<std::string> layers = D.layer_names();
    CHECK(std::set<std::string>(layers.begin(), layers.begin() + row.freeze) == row.frozen);
    CHECK(names_of(D.named_parameters()).size() + names_of(D.named_buffers()).size() ==
          tensors_of(free).size());
    check_same_layout(D, tensors_of(free));
  }
}

TEST_CASE("FreezingChangesNoLogit") {
  StyleDiscriminatorShape s = small(BlockArchitecture::kResnet, 16, 3);
  StyleDiscriminator free(s);
  s.freeze_layers = 5;
  StyleDiscriminator D(s);
  initialise_style_layers(free, "D", 1);
  initialise_style_layers(D, "D", 1);
  const Tensor logits = D.forward(pictures(2, 3, 16));
  CHECK(torch::equal(logits, free.forward(pictures(2, 3, 16))));
  logits.sum().backward();
  for (const auto& item : D.named_parameters()) CHECK(item.value().grad().defined());
  CHECK_FALSE(D.blocks[0]->conv0->weight.requires_grad());
}

TEST_CASE("LayersOfEachBlockAreCountedAsTheReferenceDoes") {
  const std::vector<std::vector<int64_t>> expected = {{3, 3, 3, 3}, {4, 3, 3, 3}, {3, 2, 2, 2}};
  for (size_t i = 0; i < 3; ++i) {
    const StyleDiscriminator D(small(kArchitectures[i], 64, 3));
    std::vector<int64_t> layers;
    for (const auto& block : D.blocks) layers.push_back(block->layers);
    CHECK(layers == expected[i]);
  }
}
