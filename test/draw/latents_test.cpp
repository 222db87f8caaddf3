// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/npy.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"

namespace gantrain {
namespace {

at::Tensor draw(int64_t seed, int64_t count) { return latents_of_seeds({seed}, count)[0]; }

double angle(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return std::acos(std::clamp((x.dot(y) / x.norm() / y.norm()).item<double>(), -1.0, 1.0));
}

}  // namespace

TEST_CASE("LatentsAreNumpys") {
  const TensorFile file = fixture("numpy_randn");
  const at::Tensor latents = latents_of_seeds({0, 1, 85, 12345}, 512);
  REQUIRE(latents.scalar_type() == at::kFloat);
  int64_t row = 0;
  for (const std::string seed : {"seed0", "seed1", "seed85", "seed12345"}) {
    CAPTURE(seed);
    CHECK(latents[row++].equal(file.tensors.at(seed + "/randn512").to(at::kFloat)));
  }
}

TEST_CASE("GreatCirclesKeepLengthAndSpeed") {
  const at::Tensor a = torch::tensor({1.0, 0.0, 0.0}, at::kDouble);
  const at::Tensor b = torch::tensor({-0.6, 0.8, 0.0}, at::kDouble);
  for (int i = 0; i <= 10; ++i) {
    const double t = i / 10.0;
    CAPTURE(t);
    const at::Tensor between = spherical(a, b, t);
    CHECK(between.norm().item<double>() == Approx(1).epsilon(1e-12));
    CHECK(angle(a, between) == Approx(t * angle(a, b)).margin(1e-7));
  }
}

TEST_CASE("EndsOfAWayAreExact") {
  const at::Tensor a = draw(1, 512), b = draw(2, 512);
  for (const auto between : {spherical, linear}) {
    CHECK(between(a, b, 0).equal(a));
    CHECK(between(a, b, 1).equal(b));
    CHECK(between(a, b, 0.5).scalar_type() == at::kFloat);
  }
}

TEST_CASE("StraightLinesAreStraight") {
  const at::Tensor a = draw(1, 8).view({2, 4}), b = draw(2, 8).view({2, 4});
  const at::Tensor expected = a + (b - a) * 0.3;
  CHECK(scaled_error(linear(a, b, 0.3), expected) < 1e-6);
}

TEST_CASE("AGreatCircleThroughParallelVectorsIsALine") {
  const at::Tensor a = draw(1, 16);
  CHECK(spherical(a, a, 0.4).equal(a));
  CHECK(scaled_error(spherical(a, 3 * a, 0.5), 2 * a) < 1e-6);
  CHECK(spherical(a, -a, 0.25).isfinite().all().item<bool>());
  CHECK(spherical(torch::zeros(4), torch::ones(4), 0.5).isfinite().all().item<bool>());
}

TEST_CASE("StylesOfAFileAreALayerARowOrOneForAll") {
  const TemporaryFolder folder;
  const at::Tensor full = draw(3, 24).view({2, 3, 4});
  save_npy(folder / "full.npy", full);
  CHECK(styles_of_file(folder / "full.npy", 3, 4).equal(full));
  const at::Tensor rows = draw(4, 8).view({2, 4});
  save_npy(folder / "rows.npy", rows);
  const at::Tensor broadcast = styles_of_file(folder / "rows.npy", 3, 4);
  REQUIRE(broadcast.sizes() == at::IntArrayRef({2, 3, 4}));
  for (int64_t layer = 0; layer < 3; ++layer) CHECK(broadcast.select(1, layer).equal(rows));
}

TEST_CASE("LatentsOfAnotherShapeAreNamedWithBothShapes") {
  const TemporaryFolder folder;
  save_npy(folder / "w.npy", draw(3, 24).view({2, 3, 4}));
  save_npy(folder / "z.npy", draw(3, 24).view({4, 6}));
  save_npy(folder / "one.npy", draw(3, 4));
  for (const std::string name : {"w.npy", "z.npy", "one.npy"}) {
    const std::string z = input_error([&] { latents_of_file(folder / name, 4); });
    CAPTURE(name, z);
    CHECK(z.find(name) != std::string::npos);
    CHECK(z.find("[N, 4]") != std::string::npos);
    const std::string w = input_error([&] { styles_of_file(folder / name, 5, 4); });
    CHECK(w.find(name) != std::string::npos);
    CHECK(w.find("[N, 5, 4]") != std::string::npos);
    CHECK(w.find("[N, 4]") != std::string::npos);
  }
  CHECK(input_error([&] { latents_of_file(folder / "w.npy", 4); }).find("[2, 3, 4]") !=
        std::string::npos);
}

TEST_CASE("LatentsThatAreNotFiniteAreRefused") {
  const TemporaryFolder folder;
  at::Tensor z = draw(3, 4).view({1, 4}).clone();
  z[0][2] = std::nanf("");
  save_npy(folder / "z.npy", z);
  CHECK(input_error([&] { latents_of_file(folder / "z.npy", 4); }).find("not finite") !=
        std::string::npos);
}

}  // namespace gantrain
