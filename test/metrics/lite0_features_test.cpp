// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "metrics/detector.h"
#include "metrics/features.h"
#include "support/catch.h"
#include "support/covered_fixture.h"
#include "support/lite0_weights.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

FeatureSums sums_of(const at::Tensor& rows) {
  FeatureSums sums;
  sums.add(rows);
  return sums;
}

double number(const at::Tensor& scalar) { return scalar.item<double>(); }

// The fixture has 12 pictures of each kind and 1280 features: its covariances are singular.
TEST_CASE("FrechetDistanceOfFewPicturesIsTheReferences") {
  CoveredFixture io("proj_fd_lite0");
  const FeatureSums a = sums_of(io["out/features_a"]), b = sums_of(io["out/features_b"]);
  const double distance =
      frechet_distance({a.mean(), a.sample_covariance()}, {b.mean(), b.sample_covariance()});
  CHECK(distance == Approx(number(io["fd/lite0"])).epsilon(1e-6));
  // Divided by N, all but the distance of the means is smaller by 11 / 12.
  const double means = number(io["fd/mean_part"]);
  CHECK(means + (distance - means) * 11 / 12 ==
        Approx(number(io["fd/lite0_population"])).epsilon(1e-6));
  CHECK(number((a.mean() - b.mean()).square().sum()) ==
        Approx(number(io["fd/mean_part"])).epsilon(1e-9));
  CHECK(number(a.sample_covariance().trace()) == Approx(number(io["fd/trace_a"])).epsilon(1e-9));
  CHECK(number(b.sample_covariance().trace()) == Approx(number(io["fd/trace_b"])).epsilon(1e-9));

  const std::string file = published_lite0();
  if (file.empty()) return;
  Lite0Features network(file, at::kCPU);
  for (const std::string kind : {"a", "b"}) {
    CAPTURE(kind);
    const at::Tensor features = network.features(io["in/" + kind + "_u8"]);
    CHECK(scaled_error(features, io["out/features_" + kind]) < 5e-5);
  }
  const at::Tensor shrunk = network.features(io["in/tile_u8"].repeat({1, 1, 8, 8}));
  CHECK(scaled_error(shrunk, io["out/features_tile_8x8_256px_antialias"]) < 5e-5);
  const FeatureSums own_a = sums_of(network.features(io["in/a_u8"]));
  const FeatureSums own_b = sums_of(network.features(io["in/b_u8"]));
  const double own = frechet_distance({own_a.mean(), own_a.sample_covariance()},
                                      {own_b.mean(), own_b.sample_covariance()});
  CHECK(own == Approx(number(io["fd/lite0"])).epsilon(1e-4));
  CHECK(io.unused() == std::vector<std::string>{});
}

TEST_CASE("PicturesOfOneToFourChannelsAndAnySizeAreSeen") {
  const std::string file = published_lite0();
  if (file.empty()) return;
  Lite0Features network(file, at::kCPU);
  for (const int64_t channels : {1, 2, 3, 4}) {
    const at::Tensor rows = network.features(at::full({2, channels, 7, 300}, 200, at::kByte));
    CHECK(rows.sizes() == at::IntArrayRef({2, 1280}));
    CHECK(rows.min().item<float>() >= 0);
    CHECK(rows.max().item<float>() <= 6);
  }
}

TEST_CASE("AFileThatHoldsNoWeightsIsNoNetwork") {
  const TemporaryFolder folder;
  write_file(folder / "text.pth", "no network");
  CHECK_THROWS_WITH(Lite0Features(folder / "text.pth", at::kCPU), Catch::Contains("text.pth"));
}

}  // namespace
}  // namespace gantrain
