// SPDX-License-Identifier: Apache-2.0
#include "explore/memorisation.h"

#include <algorithm>

#include "core/tensors.h"
#include "core/torch.h"
#include "report/grid.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Reals r00.png to r19.png of synth:shapes in a folder, and their data set.
std::shared_ptr<const Dataset> reals_in(const TemporaryFolder& folder) {
  set_log({.console = Level::kError});
  DataOptions options;
  options.resolution = {16, 16};
  const auto shapes = open_dataset(options);
  for (int64_t i = 0; i < 20; ++i)
    write_file(folder / fmt::format("r{:02}.png", i), encode_png(shapes->load(i)));
  options.path = folder.path().string();
  return open_dataset(options);
}

Fakes fakes_of(const Dataset& reals) {
  // A copy, a mirrored copy, a copy with a little noise, and another picture.
  const at::Tensor all = load_pictures(reals, 0, 20);
  at::Tensor noisy = all[5].clone();
  noisy[0][3][3] = noisy[0][3][3].item<int64_t>() < 128 ? 255 : 0;
  DataOptions other;
  other.resolution = {16, 16};
  const at::Tensor unseen = load_pictures(*open_dataset(other), 1234, 1)[0];
  return {{"copy", "mirrored", "noisy", "unseen"},
          torch::stack({all[17], all[3].flip(2), noisy, unseen})};
}

Memorisation found(const Fakes& fakes, const Dataset& reals, bool mirror) {
  MemorisationOptions options;
  options.count = 2;
  options.mirror = mirror;
  options.features = RandomFeatures(3);
  return find_nearest(fakes, reals, options);
}

}  // namespace

TEST_CASE("PlantedCopiesAreFoundByName") {
  const TemporaryFolder folder;
  const auto reals = reals_in(folder);
  const Fakes fakes = fakes_of(*reals);
  const Memorisation result = found(fakes, *reals, true);
  CHECK(result.by_pixels[0].front().distance == 0);
  CHECK(result.by_pixels[1].front().distance == 0);
  CHECK(result.by_pixels[1].front().mirrored);
  CHECK(result.by_pixels[3].front().distance > 0);
  CHECK(result.by_features[0].front().picture == 17);
  CHECK(result.by_features[2].front().picture == 5);
  CHECK(likely_copies(result) == std::vector<size_t>{0, 1, 2});
  const Json json = to_json(result, fakes, *reals);
  CHECK(json["copies"] == Json{"copy", "mirrored", "noisy"});
  CHECK(json["fakes"][0]["pixels"][0]["file"] == (folder / "r17.png").string());
  CHECK(json["fakes"][1]["pixels"][0]["file"] == (folder / "r03.png").string());
  CHECK(json["reals"] == 20);
  CHECK(json["usual"]["pixels"].get<double>() > 0);
}

TEST_CASE("MirroredRealsCountOnlyWhereTheyAreShown") {
  const TemporaryFolder folder;
  const auto reals = reals_in(folder);
  const Memorisation result = found(fakes_of(*reals), *reals, false);
  CHECK(result.by_pixels[0].front().distance == 0);
  CHECK(result.by_pixels[1].front().distance > 0);
}

TEST_CASE("AFewPicturesAtATimeBecomeVectors") {
  set_log({.console = Level::kError});
  DataOptions data;
  data.resolution = {16, 16};
  data.synth_size = 100;
  const auto reals = open_dataset(data);
  const Fakes fakes = load_fakes(*open_dataset(data));
  int64_t largest = 0, all = 0;
  MemorisationOptions options;
  options.count = 1;
  options.features = [&, features = RandomFeatures(3)](const at::Tensor& pictures) {
    largest = std::max(largest, pictures.size(0));
    all += pictures.size(0);
    return features(pictures);
  };
  const Memorisation result = find_nearest(fakes, *reals, options);
  CHECK(largest == 32);
  CHECK(all == 3 * 100);  // the fakes, the sample and the reals
  for (size_t i = 0; i < 100; ++i) {
    CHECK(result.by_pixels[i].front().picture == static_cast<int64_t>(i));
    CHECK(result.by_pixels[i].front().distance == 0);
    CHECK(result.by_features[i].front().picture == static_cast<int64_t>(i));
  }
}

TEST_CASE("MoreFakesThanMemoryHoldsAreRefusedWithTheirNumber") {
  set_log({.console = Level::kError});
  DataOptions data;
  data.resolution = {256, 256};
  data.synth_size = 2000;
  const auto many = open_dataset(data);
  CHECK(input_error([&] { load_fakes(*many); }).find("2000 fakes, at most 1365 of 256x256") !=
        std::string::npos);
}

TEST_CASE("TheSheetShowsEachFakeBesideItsReals") {
  const TemporaryFolder folder;
  const auto reals = reals_in(folder);
  const Fakes fakes = fakes_of(*reals);
  const Image sheet = pair_sheet(found(fakes, *reals, true), fakes, *reals);
  // Pictures of 16 pixels are enlarged to 80 each, and have captions below.
  CHECK(sheet.width == 5 * 80);
  CHECK(sheet.height == 4 * (80 + kCaptionHeight));
  const auto cells_are_equal = [&](int64_t y) {
    const auto line = sheet.pixels.begin() + y * sheet.width * 3;
    return std::equal(line, line + 240, line + 240);
  };
  // The first line is the copy's: two equal pictures, whose captions differ.
  for (int64_t y = 0; y < 80; ++y) CHECK(cells_are_equal(y));
  CHECK_FALSE(cells_are_equal(80 + 2));
}

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

namespace {

at::Tensor points(int64_t count, const std::string& purpose) {
  return normal_like(torch::empty({count, 5}), 1, purpose).to(at::kDouble);
}

}  // namespace

TEST_CASE("NearestAreThoseOfAnExhaustiveSearchInAnyBatches") {
  const at::Tensor queries = points(4, "queries"), all = points(37, "all");
  const at::Tensor distances = torch::cdist(queries, all);
  const int64_t batch = GENERATE(1, 5, 37);
  NearestKeeper keeper(queries, 3);
  for (int64_t first = 0; first < 37; first += batch)
    keeper.add(all.narrow(0, first, std::min<int64_t>(batch, 37 - first)), first, false);
  for (int64_t q = 0; q < 4; ++q) {
    const at::Tensor order = distances[q].argsort();
    const std::vector<Neighbour>& found = keeper.nearest()[static_cast<size_t>(q)];
    REQUIRE(found.size() == 3);
    for (int64_t i = 0; i < 3; ++i) {
      const Neighbour& neighbour = found[static_cast<size_t>(i)];
      CHECK(neighbour.picture == order[i].item<int64_t>());
      CHECK(neighbour.distance == Approx(distances[q][neighbour.picture].item<double>()));
    }
  }
}

TEST_CASE("APictureCountsOnceOnItsNearerSide") {
  const at::Tensor query = torch::zeros({1, 2}, at::kDouble);
  const at::Tensor plain = torch::tensor({{3.0, 0.0}, {1.0, 0.0}}, at::kDouble);
  const at::Tensor mirrored = torch::tensor({{0.5, 0.0}, {2.0, 0.0}}, at::kDouble);
  NearestKeeper keeper(query, 2);
  keeper.add(plain, 0, false);
  keeper.add(mirrored, 0, true);
  const std::vector<Neighbour>& found = keeper.nearest().front();
  REQUIRE(found.size() == 2);
  CHECK((found[0].picture == 0 && found[0].mirrored && found[0].distance == Approx(0.5)));
  CHECK((found[1].picture == 1 && !found[1].mirrored && found[1].distance == Approx(1)));
}

TEST_CASE("APictureIsNotItsOwnNeighbour") {
  const at::Tensor all = points(6, "all");
  NearestKeeper keeper(all.narrow(0, 2, 2), 1, {2, 3});
  keeper.add(all, 0, false);
  CHECK(keeper.nearest()[0].front().picture != 2);
  CHECK(keeper.nearest()[1].front().picture != 3);
  CHECK(keeper.nearest()[0].front().distance > 0);
}

TEST_CASE("FewerPicturesThanAskedForAreAllNeighbours") {
  NearestKeeper keeper(points(1, "query"), 5);
  keeper.add(points(2, "all"), 0, false);
  CHECK(keeper.nearest().front().size() == 2);
}

}  // namespace gantrain
