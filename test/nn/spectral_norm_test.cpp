// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "nn/normalisation.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

double sigma_of(const Tensor& matrix) {
  return std::get<1>(at::linalg_svd(matrix.detach(), false)).max().item<double>();
}

SpectralWeight drawn(const SpectralWeight::Config& config) {
  SpectralWeight layer(config);
  layer.initialise(3, "layer.");
  layer.weight_orig.requires_grad_(false);
  return layer;
}

}  // namespace

TEST_CASE("ManyForwardPassesFindTheLargestSingularValue") {
  for (const int64_t axis : {0, 1}) {
    SpectralWeight layer = drawn({.shape = {6, 5, 3, 3}, .output_axis = axis});
    for (int i = 0; i < 300; ++i) layer.normalised();
    const Tensor w = layer.normalised();
    CHECK(sigma_of((axis == 0 ? w : w.transpose(0, 1)).flatten(1)) == Approx(1).epsilon(1e-4));
    CHECK(layer.weight_u.norm().item<double>() == Approx(1));
    layer.eval();
    const Tensor u = layer.weight_u.clone();
    CHECK(torch::allclose(layer.normalised(), w, 1e-5, 1e-7));
    CHECK(torch::equal(layer.weight_u, u));
  }
}

TEST_CASE("VectorsMoveInTheNotedStatisticsAlone") {
  SpectralWeight layer = drawn({.shape = {4, 7}, .bias = 4});
  const Tensor u = layer.weight_u.clone(), v = layer.weight_v.clone();
  RunningStatistics noted;
  Tensor twice;
  {
    const RunningStatisticsScope scope(noted);
    layer.normalised();
    twice = layer.normalised();
  }
  CHECK(torch::equal(layer.weight_u, u));
  CHECK(torch::equal(layer.weight_v, v));
  noted.apply();
  CHECK_FALSE(torch::equal(layer.weight_u, u));
  SpectralWeight same = drawn({.shape = {4, 7}, .bias = 4});
  same.normalised();
  CHECK(torch::equal(same.normalised(), twice));
  CHECK(torch::equal(same.weight_u, layer.weight_u));
}

// d(W / sigma) with u and v held: (dY - <dY, W/sigma> u v^T) / sigma.
TEST_CASE("GradientsFlowThroughTheWeightAndNotThroughTheVectors") {
  SpectralWeight layer = drawn({.shape = {4, 7}});
  layer.weight_orig.requires_grad_(true);
  const Tensor w = layer.normalised();
  const Tensor dy = torch::linspace(-1, 2, 28).reshape({4, 7});
  (w * dy).sum().backward();
  const Tensor sigma = layer.weight_u.dot(layer.weight_orig.detach().mv(layer.weight_v));
  const Tensor outer = at::outer(layer.weight_u, layer.weight_v);
  const Tensor expected = (dy - (dy * w.detach()).sum() * outer) / sigma;
  CHECK(scaled_error(layer.weight_orig.grad(), expected) < 1e-5);
}

TEST_CASE("BoundsAreTorchsDefaults") {
  const SpectralWeight layer = drawn({.shape = {8, 32, 3, 3}, .bias = 8});
  const double bound = 1 / std::sqrt(32. * 9);
  CHECK(layer.weight_orig.abs().max().item<double>() == Approx(bound).epsilon(0.01));
  CHECK(layer.weight_orig.abs().max().item<double>() <= bound);
  CHECK(layer.bias.abs().max().item<double>() <= bound);
}
