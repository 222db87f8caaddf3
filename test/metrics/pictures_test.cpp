// SPDX-License-Identifier: Apache-2.0
#include "metrics/pictures.h"

#include <numeric>

#include "core/torch.h"
#include "metrics/detector.h"
#include "metrics/picture_metrics.h"
#include "metrics/toy_detector.h"
#include "support/catch.h"
#include "support/temporary_folder.h"
#include "support/toy_generator.h"
#include "util/error.h"

namespace gantrain {
namespace {

std::vector<int64_t> first(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

std::vector<int64_t> labels_of(const std::vector<int64_t>& weights, int64_t count) {
  ToyGenerator generator({.classes = static_cast<int64_t>(weights.size())});
  GeneratedPictures::Options options;
  options.size = count;
  options.class_weights = weights;
  return GeneratedPictures(generator, options).labels(first(count));
}

DatasetPictures shape_pictures(const DatasetPictures::Options& changed) {
  DatasetPictures::Options options = changed;
  options.data.resolution = {.width = 16, .height = 16};
  options.data.synth_size = 40;
  return {open_dataset(options.data), options};
}

TEST_CASE("LabelsAreInProportionFromTheBeginning") {
  CHECK(labels_of({5, 5, 5}, 7) == std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0});
  CHECK(labels_of({0, 3, 0}, 3) == std::vector<int64_t>{1, 1, 1});
  const std::vector<int64_t> labels = labels_of({1, 2, 7}, 1000);
  for (const size_t count : {10, 100, 1000}) {
    const auto end = labels.begin() + static_cast<std::ptrdiff_t>(count);
    CHECK(std::count(labels.begin(), end, 0) == static_cast<int64_t>(count / 10));
    CHECK(std::count(labels.begin(), end, 2) == static_cast<int64_t>(count * 7 / 10));
  }
}

TEST_CASE("GeneratedPicturesDependOnTheirNumbersAlone") {
  ToyGenerator generator;
  GeneratedPictures pictures(generator, {.size = 100});
  const at::Tensor all = pictures.get(first(100));
  CHECK(all.scalar_type() == at::kByte);
  CHECK(pictures.get({97, 3}).equal(at::stack({all[97], all[3]})));
  CHECK_FALSE(all[0].equal(all[1]));
  GeneratedPictures others(generator, {.size = 100, .seed = 1});
  CHECK_FALSE(others.get({0})[0].equal(all[0]));
}

TEST_CASE("PicturesOfAnEarlyStageAreEnlarged") {
  ToyGenerator generator({.levels = {8, 16}});
  GeneratedPictures pictures(generator, {.size = 4});
  const at::Tensor one = pictures.get({2});
  REQUIRE(one.sizes() == at::IntArrayRef({1, 3, 16, 16}));
  const at::Tensor small = one.slice(2, 0, 16, 2).slice(3, 0, 16, 2);
  CHECK(one.equal(small.repeat_interleave(2, 2).repeat_interleave(2, 3)));
}

TEST_CASE("PicturesOfDataAreInAFixedOrderEachOnce") {
  DatasetPictures::Options options;
  options.seed = 3;
  DatasetPictures pictures = shape_pictures(options);
  const std::vector<int64_t> labels = pictures.labels(first(40));
  for (int64_t label = 0; label < 10; ++label)
    CHECK(std::count(labels.begin(), labels.end(), label) == 4);
  CHECK(shape_pictures(options).get({7, 9}).equal(pictures.get({7, 9})));
  CHECK(shape_pictures(options).identity() == pictures.identity());

  options.shuffled = false;
  DatasetPictures in_order = shape_pictures(options);
  CHECK(in_order.labels({0, 1, 12}) == std::vector<int64_t>{0, 1, 2});
  CHECK(in_order.identity() != pictures.identity());
}

TEST_CASE("MirroredPicturesFollowTheOthers") {
  DatasetPictures::Options options;
  options.mirror = true;
  DatasetPictures pictures = shape_pictures(options);
  REQUIRE(pictures.size() == 80);
  CHECK(pictures.get({45})[0].equal(pictures.get({5})[0].flip(2)));
  CHECK(pictures.recipe()["mirror"] == true);
}

TEST_CASE("PicturesOfChosenClassesAreThoseAlone") {
  DatasetPictures::Options options;
  options.classes = {2, 5};
  DatasetPictures pictures = shape_pictures(options);
  CHECK(pictures.size() == 8);
  for (const int64_t label : pictures.labels(first(8))) CHECK((label == 2 || label == 5));
  options.classes = {11};
  CHECK_THROWS_AS(shape_pictures(options), UserError);
}

TEST_CASE("KeptPicturesAreTheSamePictures") {
  DatasetPictures pictures = shape_pictures({});
  for (const int64_t bytes : {0, 3000, 1 << 20}) {
    KeptPictures kept(pictures, bytes);
    for (int time = 0; time < 2; ++time) {
      CHECK(kept.get({1, 2, 3}).equal(pictures.get({1, 2, 3})));
      CHECK(kept.get({4}).equal(pictures.get({4})));
    }
  }
}

// On a smooth path the distance grows with the square of the step.
TEST_CASE("PathLengthDoesNotDependOnTheStep") {
  const TemporaryFolder folder;
  save_detector(folder / "toy.pt");
  Detector detector(folder / "toy.pt", at::kCPU);
  const int64_t num_ws = GENERATE(0, 3);  // through z, and through w
  ToyGenerator generator({.num_ws = num_ws, .noise = false});
  GeneratedPictures pictures(generator, {.size = 200});
  const auto length = [&](double epsilon) {
    return perceptual_path_length(pictures, detector, {.samples = 200, .epsilon = epsilon}, {});
  };
  const double coarse = length(0.02);
  CHECK(coarse > 0);
  CHECK(length(0.005) == Approx(coarse).epsilon(0.1));
  CHECK(length(0.005) == length(0.005));
}

}  // namespace
}  // namespace gantrain
