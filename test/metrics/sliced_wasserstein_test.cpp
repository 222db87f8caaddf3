// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "metrics/picture_metrics.h"
#include "metrics/toy_detector.h"
#include "support/catch.h"
#include "support/paths.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Tensors = std::map<std::string, at::Tensor>;

constexpr double kTolerance = 2e-3;  // in units of the distance times 1000

Tensors fixture(int64_t resolution) {
  return load_safetensors(fixtures_folder() + "/metrics_images" + std::to_string(resolution) +
                          ".safetensors")
      .tensors;
}

// Of the uint8 pictures in memory.
std::vector<double> swd(const at::Tensor& reals, const at::Tensor& fakes, uint64_t seed) {
  TensorPictures a(reals), b(fakes);
  return gantrain::swd({a, b}, b.size(), seed);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Descriptors of a level with the stored centres, two minibatches of four pictures at 32 pixels.
at::Tensor stored_descriptors(const Tensors& f,
                              const std::string& images,
                              const std::string& mode,
                              size_t lod,
                              int64_t levels) {
  const at::Tensor all = f.at(images);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < all.size(0); first += 4) {
    const at::Tensor level = laplacian_pyramid(all.narrow(0, first, 4), levels)[lod];
    const std::string batch = "mb" + std::to_string(first / 4) + "_lod" + std::to_string(lod);
    const Positions positions = {.x = f.at(mode + "/pos_x/" + batch).to(at::kLong),
                                 .y = f.at(mode + "/pos_y/" + batch).to(at::kLong)};
    parts.push_back(descriptors(level, positions));
  }
  at::Tensor patches = at::cat(parts);
  return normalize_(patches);
}

// All levels and their mean, times 1000; `mode` names the draws of the second set.
std::vector<double> stored_distances(const Tensors& f, const std::string& mode, int64_t levels) {
  std::vector<double> all;
  double sum = 0;
  for (size_t lod = 0; lod < static_cast<size_t>(levels); ++lod) {
    const at::Tensor a = stored_descriptors(f, "reals", "reals", lod, levels);
    const at::Tensor b = stored_descriptors(f, mode, mode, lod, levels);
    const std::string key = mode + "/dirs/lod" + std::to_string(lod) + "_rep";
    const at::Tensor directions = at::cat({f.at(key + "0"), f.at(key + "1")}, 1);
    all.push_back(1e3 * wasserstein(a, b, directions));
    sum += all.back();
  }
  all.push_back(sum / static_cast<double>(levels));
  return all;
}

// A stop is looked for while many pictures are normalised, not only before and after.
TEST_CASE("TheNormalisationOfManyDescriptorsCanBeLeft") {
  struct Stopped {};
  at::Tensor patches = at::zeros({400'000, 1, 7, 7});
  std::vector<int64_t> seen;
  normalize_(patches, [&](int64_t done, int64_t of) {
    CHECK(of == 3 * patches.numel());
    seen.push_back(done);
  });
  CHECK(seen.size() == 3);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK_THROWS_AS(normalize_(patches, [](int64_t, int64_t) { throw Stopped(); }), Stopped);
}

TEST_CASE("LaplacianPyramidMatchesReference") {
  const int64_t resolution = GENERATE(32, 64);
  const Tensors f = fixture(resolution);
  const at::Tensor real = f.at("reals").narrow(0, 0, 1).to(at::kFloat);
  const at::Tensor down = pyramid_down(real);
  CHECK(largest_difference(down, f.at("pyr_down_real0")) < 1e-4);
  CHECK(largest_difference(pyramid_up(down, resolution, resolution), f.at("pyr_up_of_that")) <
        1e-4);
  const std::vector<at::Tensor> pyramid = laplacian_pyramid(real, count_levels(resolution));
  REQUIRE(pyramid.size() == (resolution == 64 ? 3 : 2));
  for (size_t lod = 0; lod < pyramid.size(); ++lod) {
    CHECK(largest_difference(pyramid[lod], f.at("pyramid_real0/lod" + std::to_string(lod))) < 2e-4);
  }
}

TEST_CASE("SwdMatchesReference") {
  const int64_t resolution = GENERATE(32, 64);
  const Tensors f = fixture(resolution);
  for (const std::string mode : {"reals", "fakes"}) {
    const at::Tensor wanted = f.at(mode == "reals" ? "swd_real_vs_real" : "swd_fake_vs_real");
    const std::vector<double> got = stored_distances(f, mode, count_levels(resolution));
    REQUIRE(got.size() == static_cast<size_t>(wanted.numel()));
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(mode << ", level " << i);
      CHECK(got[i] ==
            Approx(wanted[static_cast<int64_t>(i)].item<double>()).margin(kTolerance).epsilon(0));
    }
  }
}

TEST_CASE("LevelsHalveDownToSixteenPixels") {
  CHECK(count_levels(8) == 1);
  CHECK(count_levels(16) == 1);
  CHECK(count_levels(31) == 1);
  CHECK(count_levels(32) == 2);
  CHECK(count_levels(1024) == 7);
}

TEST_CASE("LaplacianPyramidOfOddSizesAddsUpToThePicture") {
  const at::Tensor images = at::rand({2, 3, 37, 50}) * 255;
  const std::vector<at::Tensor> pyramid = laplacian_pyramid(images, 2);
  const at::Tensor again = pyramid[0] + pyramid_up(pyramid[1], 37, 50);
  CHECK(largest_difference(again, images) < 1e-3);
}

// Also covers values of both signs, equal values and more directions than fit in memory at once.
TEST_CASE("WassersteinIsThatOfComparisonSortedProjections") {
  const at::Tensor a = at::randn({1000, 10});
  const at::Tensor b = at::randn({1000, 10}).round() + 0.25;
  const at::Tensor directions = at::randn({10, 20});
  const at::Tensor unit = directions / directions.norm(2, 0, true);
  const at::Tensor sorted_a = std::get<0>(a.mm(unit).sort(0));
  const at::Tensor sorted_b = std::get<0>(b.mm(unit).sort(0));
  const double wanted = (sorted_a - sorted_b).abs().mean().item<double>();
  CHECK(wasserstein(a, b, directions) == Approx(wanted).epsilon(1e-5));
}

TEST_CASE("SwdOfASetWithItselfIsSmallAndGrowsWithNoise") {
  const int64_t side = GENERATE(8, 16, 32, 64);
  const at::Tensor reals =
      fixture(64).at("reals").repeat({16, 1, 1, 1}).narrow(2, 0, side).narrow(3, 0, side);
  const at::Tensor noise = at::randint(0, 256, reals.sizes(), at::kByte);
  const std::vector<double> same = swd(reals, reals, 1);
  const std::vector<double> other = swd(reals, noise, 1);
  REQUIRE(same.size() == static_cast<size_t>(count_levels(side)) + 1);
  CHECK(same.back() < other.back() / 3);
}

TEST_CASE("SwdDependsOnSeedAndNothingElse") {
  const at::Tensor reals = at::randint(0, 256, {70, 3, 32, 32}, at::kByte);
  const at::Tensor fakes = at::randint(0, 200, {70, 3, 32, 32}, at::kByte);
  const std::vector<double> first = swd(reals, fakes, 5);
  at::manual_seed(3);
  CHECK(swd(reals, fakes, 5) == first);
  CHECK(swd(reals, fakes, 6) != first);
  // Reals beyond as many as there are fakes do not count.
  CHECK(swd(at::cat({reals, fakes}), fakes, 5) == first);
}

TEST_CASE("SwdRepeatsTheSmallerSet") {
  const at::Tensor reals = at::randint(0, 256, {3, 3, 16, 16}, at::kByte);
  const at::Tensor fakes = at::randint(0, 200, {7, 3, 16, 16}, at::kByte);
  const at::Tensor repeated = at::cat({reals, reals, reals.narrow(0, 0, 1)});
  CHECK(swd(reals, fakes, 1) == swd(repeated, fakes, 1));
  CHECK(swd(reals, fakes, 1) != swd(reals, fakes.narrow(0, 0, 3), 1));
}

TEST_CASE("SwdTakesOneToFourChannels") {
  const at::Tensor reals = at::randint(0, 256, {8, 4, 16, 16}, at::kByte);
  const at::Tensor fakes = at::randint(0, 256, {8, 4, 16, 16}, at::kByte);
  const auto of = [&](int64_t channels) {
    return swd(reals.narrow(1, 0, channels), fakes.narrow(1, 0, channels), 0);
  };
  CHECK(of(1) != of(2));
  CHECK(of(2) != of(3));
  CHECK(of(3) != of(4));  // alpha counts
}

TEST_CASE("SwdOfPicturesThatAreNotSquareHasTheLevelsOfTheShorterSide") {
  const at::Tensor reals = at::randint(0, 256, {8, 3, 32, 96}, at::kByte);
  const at::Tensor fakes = at::randint(0, 200, {8, 3, 32, 96}, at::kByte);
  const std::vector<double> levels = swd(reals, fakes, 0);
  CHECK(levels.size() == 3);  // 32 and 16, and their mean
  CHECK(levels.back() > 0);
  CHECK(swd(reals, reals, 0).size() == 3);
}

TEST_CASE("SwdOfFlatPicturesIsFinite") {
  const at::Tensor black = at::zeros({4, 3, 16, 16}, at::kByte);
  CHECK(swd(black, black, 0).back() == 0);
  CHECK_THROWS_AS(swd(black.narrow(2, 0, 4), black.narrow(2, 0, 4), 0), UserError);
}

using Numbers = std::vector<float>;

double by_sorting(Numbers a, Numbers b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - b[i]);
  return sum;
}

ValueRange range_of(const Numbers& a, const Numbers& b) {
  Numbers all = a;
  all.insert(all.end(), b.begin(), b.end());
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  return {*low, *high};
}

template <class Draw>
Numbers drawn(size_t count, uint32_t seed, Draw draw) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (float& x : numbers) x = static_cast<float>(draw(random));
  return numbers;
}

void check(const Numbers& a, const Numbers& b) {
  const ValueRange range = range_of(a, b);
  const double wanted = by_sorting(a, b);
  // Rounding of places: 2^-24 of the range for each number at worst.
  const double slack = (range.high - range.low) * 0x1p-24 * static_cast<double>(a.size());
  CHECK(std::abs(Transport().cost(a, b, range) - wanted) <= slack + 1e-6 * wanted);
}

TEST_CASE("TransportCostIsThatOfSortedNumbers") {
  const size_t count = GENERATE(1, 2, 7, 100, 5000, 300000);
  const auto normal = std::normal_distribution<double>();
  const auto uniform = std::uniform_real_distribution<double>(-3, 5);
  SECTION("equal distributions: the counting functions cross often") {
    check(drawn(count, 1, normal), drawn(count, 2, normal));
  }
  SECTION("different distributions") { check(drawn(count, 1, normal), drawn(count, 2, uniform)); }
  SECTION("many equal numbers") {
    auto whole = [d = normal](auto& random) mutable { return std::round(2 * d(random)); };
    check(drawn(count, 1, whole), drawn(count, 2, whole));
  }
  SECTION("one far away") {
    Numbers a = drawn(count, 1, normal);
    a[0] = 1e4f;
    check(a, drawn(count, 2, normal));
  }
  SECTION("no overlap") {
    auto far = [d = normal](auto& random) mutable { return 100 + d(random); };
    check(drawn(count, 1, normal), drawn(count, 2, far));
  }
}

TEST_CASE("TransportOfASetOntoItselfCostsNothing") {
  Numbers a = drawn(20000, 1, std::normal_distribution<double>());
  Numbers b = a;
  std::reverse(b.begin(), b.end());
  CHECK(Transport().cost(a, b, range_of(a, b)) < 1e-3);
  const Numbers same(10, 0.5f);
  CHECK(Transport().cost(same, same, range_of(same, same)) == 0);
}

TEST_CASE("TransportDoesNotDependOnWhatWasAskedBefore") {
  const Numbers a = drawn(900, 1, std::normal_distribution<double>());
  const Numbers b = drawn(900, 2, std::normal_distribution<double>());
  Transport used;
  used.cost(drawn(50000, 3, std::normal_distribution<double>()), Numbers(50000, 1.0f), {-9, 9});
  CHECK(used.cost(a, b, range_of(a, b)) == Transport().cost(a, b, range_of(a, b)));
}

TEST_CASE("TransportOfWhatIsNotFiniteIsNotANumber") {
  const Numbers a = {0, std::numeric_limits<float>::infinity()};
  CHECK(std::isnan(Transport().cost(a, a, range_of(a, a))));
}

}  // namespace

}  // namespace gantrain
