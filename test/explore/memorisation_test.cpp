// SPDX-License-Identifier: Apache-2.0
#include "explore/memorisation.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "report/grid.h"
#include "support/temporary_folder.h"
#include "util/error.h"
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
  try {
    load_fakes(*many);
    FAIL("they were loaded");
  } catch (const UserError& e) {
    CHECK(e.code() == Exit::kInput);
    CHECK(std::string(e.what()).find("2000 fakes, at most 1365 of 256x256") != std::string::npos);
  }
}

TEST_CASE("TheSheetShowsEachFakeBesideItsReals") {
  const TemporaryFolder folder;
  const auto reals = reals_in(folder);
  const Fakes fakes = fakes_of(*reals);
  const Image sheet = pair_sheet(found(fakes, *reals, true), fakes, *reals);
  CHECK(sheet.width == 5 * 16);
  CHECK(sheet.height == 4 * 16);
  // The first line is the copy's: two equal pictures.
  for (int64_t y = 0; y < 16; ++y) {
    const auto line = sheet.pixels.begin() + y * sheet.width * 3;
    CHECK(std::equal(line, line + 48, line + 48));
  }
}

}  // namespace gantrain
