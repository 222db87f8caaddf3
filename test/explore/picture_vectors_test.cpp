// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "explore/memorisation.h"

namespace gantrain {
namespace {

at::Tensor noise(int64_t count, int64_t height, int64_t width) {
  const at::Tensor numbers = torch::arange(count * 3 * height * width).mul(7919).remainder(256);
  return numbers.to(at::kByte).view({count, 3, height, width});
}

double distance(const at::Tensor& vectors) {
  return (vectors[0].to(at::kDouble) - vectors[1].to(at::kDouble)).norm().item<double>();
}

}  // namespace

TEST_CASE("PixelDistanceIsTheRootMeanSquare") {
  at::Tensor pictures = torch::zeros({2, 3, 8, 12}, at::kByte);
  pictures[1].fill_(255);
  CHECK(distance(pixel_vectors(pictures)) == Approx(1));
  pictures[1].fill_(51);
  CHECK(distance(pixel_vectors(pictures)) == Approx(0.2));
  at::Tensor large = torch::zeros({2, 1, 300, 520}, at::kByte);
  large[1].fill_(51);
  CHECK(pixel_vectors(large).size(1) < 256 * 256);
  CHECK(distance(pixel_vectors(large)) == Approx(0.2).epsilon(0.01));
}

TEST_CASE("RandomFeaturesAreFixedAndTellPicturesApart") {
  const at::Tensor pictures = noise(3, 16, 24);
  const RandomFeatures features(3);
  const at::Tensor vectors = features(pictures);
  CHECK(vectors.equal(RandomFeatures(3)(pictures)));
  CHECK(distance(vectors) > 0);
  CHECK(RandomFeatures(1)(pictures.narrow(1, 0, 1)).size(1) == vectors.size(1));
  CHECK(features(noise(1, 400, 200)).size(1) == vectors.size(1));
  CHECK(features(noise(1, 4, 4)).isfinite().all().item<bool>());
}

}  // namespace gantrain
