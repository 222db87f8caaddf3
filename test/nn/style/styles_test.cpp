// SPDX-License-Identifier: Apache-2.0
#include "nn/style/styles.h"

#include <catch2/catch.hpp>

#include "core/device.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

// The cut of style mixing as a recipe has it.
at::Tensor cut(int64_t layer) { return torch::tensor(layer, at::kLong); }

}  // namespace

TEST_CASE("EachDoublingHasTwoLayers") {
  CHECK(layers_at(4) == 2);
  CHECK(layers_at(8) == 4);
  CHECK(layers_at(1024) == 18);
}

TEST_CASE("AllLayersHaveTheSameW") {
  const at::Tensor w = torch::randn({2, 3});
  const at::Tensor ws = for_all_layers(w, 4);
  CHECK(ws.sizes() == at::IntArrayRef({2, 4, 3}));
  for (int64_t i = 0; i < 4; ++i) CHECK(torch::equal(ws.select(1, i), w));
}

TEST_CASE("TruncationMovesTheFirstLayersTowardsTheAverage") {
  const at::Tensor ws = torch::randn({2, 6, 3}), average = torch::randn({3});
  CHECK(torch::equal(truncated(ws, average, 1, 3), ws));
  CHECK(torch::allclose(truncated(ws, average, 0, std::nullopt), average.expand_as(ws)));
  const at::Tensor half = truncated(ws, average, 0.5, 2);
  CHECK(torch::allclose(half.narrow(1, 0, 2), (ws.narrow(1, 0, 2) + average) / 2));
  CHECK(torch::equal(half.narrow(1, 2, 4), ws.narrow(1, 2, 4)));
  CHECK(torch::equal(truncated(ws, average, 0.5, 0), ws));
  CHECK(torch::equal(truncated(ws, average, 0.5, 99), truncated(ws, average, 0.5, std::nullopt)));
  const at::Tensor beyond = truncated(ws, average, -0.5, 1);
  CHECK(torch::allclose(beyond.select(1, 0), average * 1.5 - ws.select(1, 0) * 0.5));
}

TEST_CASE("MixingTakesTheLaterLayersFromTheOther") {
  const at::Tensor a = torch::zeros({2, 4, 3}), b = torch::ones({2, 4, 3});
  CHECK(mix_styles(a, b, cut(1))[0].select(1, 0).equal(torch::tensor({0.f, 1.f, 1.f, 1.f})));
  CHECK(torch::equal(mix_styles(a, b, cut(4)), a));
  CHECK(torch::equal(mix_styles(a, b, cut(0)), b));
  const at::Tensor w = torch::randn({2, 3}), other = torch::randn({2, 3});
  for (const int64_t layer : {0, 1, 3, 4})
    CHECK(torch::equal(mix_styles(w, other, cut(layer), 4),
                       mix_styles(for_all_layers(w, 4), for_all_layers(other, 4), cut(layer))));
}

TEST_CASE("MixingWithoutReadingTheCutGivesTheSameStylesAndGradients") {
  const auto mixed = [](int64_t layer, bool of_w) {
    const at::Tensor w = torch::linspace(-1, 1, 6).reshape({2, 3}).requires_grad_(true);
    const at::Tensor other = torch::linspace(2, 3, 6).reshape({2, 3}).requires_grad_(true);
    const at::Tensor ws =
        of_w ? mix_styles(w, other, cut(layer), 4)
             : mix_styles(for_all_layers(w, 4), for_all_layers(other, 4), cut(layer));
    const at::Tensor dy = torch::arange(24, at::kFloat).reshape({2, 4, 3});
    const auto grads = torch::autograd::grad({ws}, {w, other}, {dy});
    return std::vector<at::Tensor>{ws.detach(), grads[0], grads[1]};
  };
  for (const bool of_w : {false, true}) {
    for (const int64_t layer : {0, 1, 3, 4}) {
      CAPTURE(of_w, layer);
      const std::vector<at::Tensor> read = mixed(layer, of_w);
      const AssumeReadsWait as_on_a_gpu;
      const std::vector<at::Tensor> unread = mixed(layer, of_w);
      for (size_t i = 0; i < read.size(); ++i) CHECK(torch::equal(read[i], unread[i]));
    }
  }
}

TEST_CASE("WhetherMixingDoesNothingIsKnownOnlyWhereReadsAreFree") {
  CHECK(known_not_to_mix(cut(4), 4));
  CHECK_FALSE(known_not_to_mix(cut(3), 4));
  const AssumeReadsWait as_on_a_gpu;
  CHECK_FALSE(known_not_to_mix(cut(4), 4));
}
