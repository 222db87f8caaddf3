// SPDX-License-Identifier: Apache-2.0
// All metrics together: of any number of ranks, of classes, with statistics that are kept.
#include "metrics/measure.h"

#include <cmath>
#include <filesystem>
#include <string>

#include "core/torch.h"
#include "data/pictures/dataset.h"
#include "distributed/group.h"
#include "metrics/detector.h"
#include "metrics/picture_metrics.h"
#include "metrics/toy_detector.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

DataOptions shapes(int64_t side, int64_t size) {
  DataOptions options;
  options.resolution = {.width = side, .height = side};
  options.synth_size = size;
  return options;
}

DatasetPictures shape_pictures(int64_t side, int64_t size, uint64_t seed) {
  const DataOptions options = shapes(side, size);
  return {open_dataset(options),
          DatasetPictures::Options{.data = options, .seed = seed, .classes = {}}};
}

const std::vector<std::string>& all_of_pictures() {
  static const std::vector<std::string> names = {"swd",
                                                 "msssim",
                                                 "diversity",
                                                 "modes",
                                                 "fid",
                                                 "kid",
                                                 "pr",
                                                 "dc",
                                                 "is",
                                                 "fd",
                                                 "fd_lite0",
                                                 "kd_lite0",
                                                 "pr_lite0"};
  return names;
}

// Stands for EfficientNet-Lite0, whose weights need not be there.
class ToyLite0 final : public FeatureNetwork {
 public:
  const std::string& name() const override { return name_; }
  const std::string& sha256() const override { return sha256_; }
  at::Tensor features(const at::Tensor& pictures) override {
    return at::adaptive_avg_pool2d(to_rgb(pictures) / 127.5 - 1, {3, 3}).flatten(1).square();
  }

 private:
  std::string name_ = "toy.pth", sha256_ = "0123";
};

// A detector and two sets of shapes that are not quite alike.
struct Bench {
  TemporaryFolder folder;
  DatasetPictures reals = shape_pictures(32, 400, 1);
  DatasetPictures fakes = shape_pictures(32, 300, 2);
  std::shared_ptr<Group> alone = Group::join({}, BackendKind::kGloo, at::kCPU, 20);
  std::unique_ptr<Detector> detector;
  ToyLite0 lite0;

  Bench() {
    save_detector(folder / "toy.pt");
    detector = std::make_unique<Detector>(folder / "toy.pt", at::kCPU);
  }
  MetricInput input() {
    MetricInput all = {.group = *alone};
    all.reals = &reals;
    all.fakes = &fakes;
    all.detector = detector.get();
    all.lite0 = &lite0;
    all.shapes = true;
    all.images = 130;
    all.real_images = 290;
    return all;
  }
};

double difference(const Json& a, const Json& b) {
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) / std::max(std::abs(x), 1e-3);
}

namespace {

void write_results(const fs::path& file, const std::vector<MetricResult>& all) {
  Json rows = Json::array();
  for (const MetricResult& one : all)
    rows.push_back({{"recipe", one.recipe}, {"results", one.results}});
  write_file(file, rows.dump());
}

void check_same_results(const Json& many, const Json& one) {
  REQUIRE(many.size() == one.size());
  for (size_t i = 0; i < one.size(); ++i) {
    CHECK(many[i]["recipe"] == one[i]["recipe"]);
    const Json& results = one[i]["results"];
    CHECK(many[i]["results"].size() == results.size());
    for (const auto& [name, value] : results.items()) {
      CAPTURE(name);
      CHECK(difference(value, many[i]["results"].at(name)) <= 1e-6);
    }
  }
}

}  // namespace

// Rank 0 measures alone before, the others wait for it.
TEST_CASE("AnyNumberOfRanksMeasuresTheSame") {
  const int64_t world = GENERATE(2, 3);
  const TemporaryFolder folder;
  CHECK(failed_ranks(world, [&](const Rendezvous& r) {
          const auto group = Group::join(r, BackendKind::kGloo, at::kCPU, 60);
          Bench bench;
          MetricInput input = bench.input();
          input.per_class = true;
          if (r.ranks.rank == 0) write_results(folder / "one", measure(all_of_pictures(), input));
          MetricInput shared = {.group = *group};
          shared.reals = input.reals;
          shared.fakes = input.fakes;
          shared.detector = input.detector;
          shared.lite0 = input.lite0;
          shared.shapes = true;
          shared.images = input.images;
          shared.real_images = input.real_images;
          shared.per_class = true;
          int64_t calls = 0;
          shared.between = [&](const MetricProgress&) {
            ++calls;
            group->barrier();  // hangs unless all ranks call it equally often
          };
          write_results(folder / std::to_string(r.ranks.rank), measure(all_of_pictures(), shared));
          return calls > 10 ? 0 : 1;
        }) == 0);
  const Json one = Json::parse(read_file(folder / "one"));
  REQUIRE(one.size() == all_of_pictures().size());
  for (int64_t rank = 0; rank < world; ++rank) {
    CAPTURE(world, rank);
    check_same_results(Json::parse(read_file(folder / std::to_string(rank))), one);
  }
}

TEST_CASE("EveryMetricSaysWhatItDependsOn") {
  Bench bench;
  const std::vector<MetricResult> results = measure(all_of_pictures(), bench.input());
  REQUIRE(results.size() == all_of_pictures().size());
  for (const MetricResult& result : results) {
    CAPTURE(result.metric);
    const MetricRow& row = find_metric(result.metric);
    CHECK(result.results.contains(row.key));
    CHECK(result.recipe["fakes"] == 130);
    CHECK(result.recipe["resolution"].dump() != "null");
    if (row.needs_reals) CHECK(result.recipe["filter"] == "lanczos");
    CHECK(result.recipe.contains("detector_sha256") == row.needs_features());
    if (row.needs_lite0) CHECK(result.recipe["detector_sha256"] == "0123");
    if (row.needs_features() && row.needs_reals) CHECK(result.recipe["reals"] == 290);
    CHECK(same_recipe(result.recipe, result.recipe));
  }
  MetricInput fewer = bench.input();
  fewer.images = 129;
  CHECK_FALSE(same_recipe(results[0].recipe, measure({"swd"}, fewer)[0].recipe));
  CHECK(to_json(results[4])["metric"] == "fid");
}

TEST_CASE("SwdLooksAtEveryFakeWhereRealsAreFewer") {
  Bench bench;
  MetricInput input = bench.input();
  DatasetPictures few = shape_pictures(32, 20, 9);
  input.reals = &few;
  const MetricResult result = measure({"swd"}, input)[0];
  CHECK(result.recipe["fakes"] == 130);
  CHECK(result.recipe["reals"] == 20);
}

TEST_CASE("OfStacksNetworksSeeThreeChannelsWhichTheResultSays") {
  Bench bench;
  MetricInput input = bench.input();
  const std::vector<std::string> names = {"swd", "fd_lite0"};
  CHECK_FALSE(measure(names, input)[1].recipe.contains("detector_channels"));
  DataOptions five = shapes(32, 200);
  five.channels = 5;
  const auto pictures_of = [&](uint64_t seed) {
    return DatasetPictures(open_dataset(five), {.data = five, .seed = seed, .classes = {}});
  };
  DatasetPictures reals = pictures_of(1), fakes = pictures_of(2);
  input.reals = &reals;
  input.fakes = &fakes;
  input.real_images = 200;
  const std::vector<MetricResult> results = measure(names, input);
  CHECK_FALSE(results[0].recipe.contains("detector_channels"));
  CHECK(results[0].recipe["channels"] == 5);
  CHECK(results[1].recipe["detector_channels"] == "0,1,2");
}

TEST_CASE("ASetMeasuredAgainstItselfIsPerfect") {
  Bench bench;
  MetricInput input = bench.input();
  input.fakes = &bench.reals;
  input.images = 400;
  input.real_images = -1;
  const std::vector<MetricResult> results =
      measure({"fid", "pr", "dc", "diversity", "modes", "fd_lite0", "pr_lite0"}, input);
  CHECK(results[0].results["fid"].get<double>() < 1e-9);
  CHECK(results[1].results["precision"] == 1);
  CHECK(results[1].results["recall"] == 1);
  CHECK(results[2].results["coverage"] == 1);
  CHECK(results[3].results["diversity"].get<double>() == Approx(1));
  CHECK(results[4].results["modes"] == 10);
  CHECK(results[5].results["fd_lite0"].get<double>() < 1e-9);
  CHECK(results[6].results["precision_lite0"] == 1);
  CHECK(results[6].results["recall_lite0"] == 1);
}

TEST_CASE("TwoNetworksSideBySideGiveEachTheNumbersThatItGivesAlone") {
  Bench bench;
  const auto of = [&](const std::vector<std::string>& names) {
    std::map<std::string, Json> results;
    for (const MetricResult& result : measure(names, bench.input()))
      results[result.metric] = result.results;
    return results;
  };
  const auto both = of({"fd", "fd_lite0", "kid", "kd_lite0"});
  CHECK(both.at("fd") == of({"fd"}).at("fd"));
  CHECK(both.at("fd_lite0") == of({"fd_lite0"}).at("fd_lite0"));
  CHECK(both.at("kid") == of({"kid"}).at("kid"));
  CHECK(both.at("kd_lite0") == of({"kd_lite0"}).at("kd_lite0"));
}

TEST_CASE("ClassesAreMeasuredByThemselves") {
  Bench bench;
  MetricInput input = bench.input();
  input.images = 300;
  input.per_class = true;
  const Json results = measure({"fid", "swd"}, input)[0].results;
  CHECK(results.size() == 11);
  CHECK(results.contains("fid"));
  CHECK(results.contains("fid/" + bench.reals.class_names()[3]));
}

// Pictures with labels of three numbers: a class, a value, and a value that is 0 or 1 in all but
// the last picture.
class LabelledPictures final : public Pictures {
 public:
  explicit LabelledPictures(Pictures& pictures, bool classes = true)
      : pictures_(pictures), classes_(classes) {}
  int64_t size() const override { return pictures_.size(); }
  at::Tensor get(const std::vector<int64_t>& numbers) override { return pictures_.get(numbers); }
  std::vector<std::string> class_names() const override { return {"red", "angle", "size"}; }
  at::Tensor vectors(const std::vector<int64_t>& numbers) override {
    const at::Tensor k = at::tensor(numbers, at::kLong);
    const at::Tensor half = k.remainder(2).to(at::kFloat);
    const at::Tensor last = k.eq(size() - 1).to(at::kFloat) * 0.5;
    return at::stack({classes_ ? half : half * 0.25, k.to(at::kFloat) / 7, half + last}, 1);
  }

 private:
  Pictures& pictures_;
  bool classes_;
};

TEST_CASE("ValuesAmongTheNumbersOfLabelsAreNoClasses") {
  Bench bench;
  LabelledPictures reals(bench.reals), fakes(bench.fakes);
  MetricInput input = bench.input();
  input.reals = &reals;
  input.fakes = &fakes;
  input.images = input.real_images = 300;  // without the last picture of the reals
  input.per_class = true;
  const Json results = measure({"fid"}, input)[0].results;
  CHECK(results.size() == 2);
  CHECK(results.contains("fid/red"));
  // Without reals the fakes' labels say it.
  input.reals = nullptr;
  CHECK(measure({"msssim"}, input)[0].results.size() == 2);
  LabelledPictures values(bench.fakes, /*classes=*/false);
  input.fakes = &values;
  CHECK_THROWS_WITH(measure({"msssim"}, input), Catch::Contains("values: red, angle, size"));
}

TEST_CASE("StatisticsOfRealsAreKeptAndReadAgain") {
  Bench bench;
  MetricInput input = bench.input();
  input.cache = bench.folder / "cache";
  const auto fid = [&] { return measure({"fid", "kid"}, input); };
  const std::vector<MetricResult> first = fid();
  const auto files = [&] {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(input.cache)) all.push_back(entry.path());
    return all;
  };
  REQUIRE(files().size() == 1);
  const fs::path kept = files()[0];
  const std::string content = read_file(kept);
  CHECK(fid()[0].results == first[0].results);
  CHECK(fid()[1].results == first[1].results);
  CHECK(read_file(kept) == content);

  SECTION("what was kept is what is used") {
    // Statistics of other pictures under the same name would give another distance.
    MetricInput other = input;
    other.cache = bench.folder / "other";
    DatasetPictures fewer = shape_pictures(32, 350, 9);
    other.reals = &fewer;
    CHECK(measure({"fid"}, other)[0].results != first[0].results);
  }
  SECTION("a broken file is replaced") {
    write_file(kept, content.substr(0, content.size() / 3));
    CHECK(fid()[0].results == first[0].results);
    CHECK(read_file(kept) == content);
  }
  SECTION("other pictures, detectors and numbers have files of their own") {
    input.real_images = 280;
    fid();
    CHECK(files().size() == 2);
    save_detector(bench.folder / "plain.pt", "def forward(self, x):\n    return x.mean([2, 3])\n");
    Detector plain(bench.folder / "plain.pt", at::kCPU);
    input.detector = &plain;
    fid();
    CHECK(files().size() == 3);
    DatasetPictures others = shape_pictures(32, 500, 1);
    input.reals = &others;
    fid();
    CHECK(files().size() == 4);
  }
  SECTION("a folder that cannot be written to costs a warning alone") {
    write_file(bench.folder / "file", "");
    input.cache = bench.folder / "file" / "below";
    CHECK(fid()[0].results == first[0].results);
  }
}

TEST_CASE("TooFewOrOtherPicturesAreRefused") {
  Bench bench;
  MetricInput input = bench.input();
  input.images = 3;
  CHECK_THROWS_WITH(measure({"pr"}, input), Catch::Contains("pr needs 4 pictures"));
  CHECK_THROWS_WITH(measure({"is"}, input), Catch::Contains("is needs 10 pictures"));
  int64_t pieces = 0;
  input.between = [&](const MetricProgress&) { ++pieces; };
  CHECK_THROWS_WITH(measure({"swd", "fid", "is"}, input), Catch::Contains("is needs 10 pictures"));
  CHECK(pieces == 0);  // it is said before any work
  DatasetPictures small = shape_pictures(16, 100, 1);
  input.reals = &small;
  CHECK_THROWS_WITH(measure({"swd"}, input), Catch::Contains("16x16") && Catch::Contains("32x32"));
  input.detector = nullptr;
  CHECK_THROWS_WITH(measure({"fid"}, input), Catch::Contains("--detector"));
  input.lite0 = nullptr;
  CHECK_THROWS_WITH(measure({"fd_lite0"}, input), Catch::Contains("--lite0"));
  CHECK_THROWS_WITH(measure({"ppl"}, bench.input()), Catch::Contains("generator"));
  CHECK_THROWS_WITH(parse_metrics("--metrics", "fid,kdi"), Catch::Contains("did you mean kid"));
}

TEST_CASE("WhatADetectorCannotDoIsSaidBeforeAnyWork") {
  Bench bench;
  save_detector(bench.folder / "plain.pt", "def forward(self, x):\n    return x.mean([2, 3])\n");
  Detector plain(bench.folder / "plain.pt", at::kCPU);
  MetricInput input = bench.input();
  input.detector = &plain;
  int64_t pieces = 0;
  input.between = [&](const MetricProgress&) { ++pieces; };
  CHECK_THROWS_WITH(measure({"swd", "fid", "is"}, input),
                    Catch::Contains("plain.pt") && Catch::Contains("probabilities"));
  CHECK(pieces == 0);
  CHECK_NOTHROW(check_input({"swd", "fid"}, input));
}

TEST_CASE("RealShapesAreSortedIntoTheirClasses") {
  const int64_t side = GENERATE(16, 32, 64);
  CAPTURE(side);
  DatasetPictures bank = shape_pictures(side, 4000, 1), fakes = shape_pictures(side, 9000, 2);
  const int64_t count = 500;
  const at::Tensor classes = classify_shapes(bank, fakes, count, {});
  const Piece all = {.first = 0, .count = count};
  const at::Tensor labels = at::tensor(fakes.labels(all.numbers()), at::kLong);
  CHECK(classes.eq(labels).to(at::kDouble).mean().item<double>() >= 0.95);
}

TEST_CASE("ModesThatAreMissingAreNotCounted") {
  const DataOptions options = shapes(32, 4000);
  DatasetPictures reals = shape_pictures(32, 4000, 1);
  DatasetPictures seven(
      open_dataset(options),
      DatasetPictures::Options{.data = options, .seed = 2, .classes = {0, 1, 2, 4, 5, 8, 9}});
  CHECK(count_modes(reals, seven, 700, {}).shown == 7);
  TensorPictures noise(torch::randint(0, 256, {200, 3, 32, 32}, at::kByte));
  CHECK(count_modes(reals, noise, 200, {}).recognised < 0.05);
  TensorPictures grey(torch::full({20, 3, 32, 32}, 127, at::kByte));
  CHECK(count_modes(reals, grey, 20, {}).recognised == 0);
  TensorPictures same(reals.get({5}).repeat({200, 1, 1, 1}));
  CHECK(count_modes(reals, same, 200, {}).shown == 1);
}

namespace {

DatasetPictures attribute_pictures(int64_t side, uint64_t seed) {
  DataOptions options = shapes(side, 1000);
  options.path = kAttributeShapes;
  return {open_dataset(options), {.data = options, .seed = seed, .classes = {}}};
}

}  // namespace

TEST_CASE("RealShapesHaveTheAttributesOfTheirLabels") {
  const int64_t side = GENERATE(16, 24, 32, 64);
  CAPTURE(side);
  DatasetPictures pictures = attribute_pictures(side, 1);
  const AttributeAccuracy shown = attribute_accuracy(pictures, 500, {});
  CHECK(shown.color == 1);
  CHECK(shown.size >= 0.99);
  CHECK(shown.angle >= 0.99);
  CHECK(shown.all >= 0.98);
  const std::vector<int64_t> numbers = Piece{.first = 0, .count = 500}.numbers();
  const at::Tensor off = shown_attributes(pictures.get(numbers)) - pictures.vectors(numbers);
  CHECK(off.select(1, 3).square().mean().sqrt().item<double>() < 0.05);
  CHECK(off.select(1, 4).square().mean().sqrt().item<double>() < 0.08);
}

TEST_CASE("PicturesWithoutTheirAttributesAreNotTakenForSuch") {
  class Others final : public Pictures {  // with the labels of other pictures
   public:
    Others() : own_(attribute_pictures(16, 1)), labels_(attribute_pictures(16, 2)) {}
    int64_t size() const override { return own_.size(); }
    at::Tensor get(const std::vector<int64_t>& numbers) override { return own_.get(numbers); }
    at::Tensor vectors(const std::vector<int64_t>& numbers) override {
      return labels_.vectors(numbers);
    }

   private:
    DatasetPictures own_, labels_;
  } others;
  const AttributeAccuracy shown = attribute_accuracy(others, 500, {});
  CHECK(shown.color < 0.3);
  CHECK(shown.size < 0.5);
  CHECK(shown.angle < 0.45);
  CHECK(shown.all < 0.05);
  TensorPictures plain(torch::full({20, 3, 16, 16}, 240, at::kByte));
  CHECK_THROWS_WITH(attribute_accuracy(plain, 20, {}), Catch::Contains("attributes: needs RGB"));
}

TEST_CASE("DiversityOfOnePictureIsZero") {
  DatasetPictures reals = shape_pictures(64, 500, 1), others = shape_pictures(64, 500, 2);
  TensorPictures same(reals.get({5}).repeat({100, 1, 1, 1}));
  CHECK(mean_distance(same, 100, {}) == Approx(0).margin(1e-9));
  CHECK(mean_distance(others, 300, {}) / mean_distance(reals, 300, {}) == Approx(1).epsilon(0.05));
}

}  // namespace
}  // namespace gantrain
