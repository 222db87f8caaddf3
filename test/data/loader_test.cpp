// SPDX-License-Identifier: Apache-2.0
#include "data/load/loader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/torch.h"
#include "data/pictures/dataset.h"
#include "support/catch.h"
#include "util/error.h"
#include "util/system.h"

namespace gantrain {

namespace {

constexpr int64_t kPrime = 101;

// Pictures of 2 x 2 x 1 whose left column is their index and whose right column is 255 - index.
class Numbered final : public Dataset {
 public:
  int64_t size() const override { return kPrime; }
  int64_t channels() const override { return 1; }
  int64_t classes() const override { return with_labels ? 7 : 0; }
  int64_t label(int64_t index) const override { return index % 7; }
  std::string description() const override { return "numbered"; }
  Image load(int64_t index) const override {
    if (index == bad || index == worse) fail(Exit::kInput, "picture {}", index);
    ++begun;
    while (closed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (!sigismember(&blocked, SIGTERM)) signals_open = true;
    ++loads;
    const auto value = static_cast<uint8_t>(index);
    const auto other = static_cast<uint8_t>(255 - index);
    return {2, 2, 1, {value, other, value, other}};
  }

  bool with_labels = true;
  int64_t bad = -1;
  int64_t worse = -1;
  double seconds = 0;
  std::atomic<bool> closed = false;  // no load ends while it is
  mutable std::atomic<int> begun = 0;
  mutable std::atomic<int> loads = 0;
  mutable std::atomic<bool> signals_open = false;
};

DataOptions with_workers(int64_t workers, bool mirror = false) {
  DataOptions options;
  options.resolution = {2, 2};
  options.workers = workers;
  options.mirror = mirror;
  return options;
}

// Indices of the pictures in a batch.
std::vector<int64_t> indices(const Batch& batch) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < batch.real.size(0); ++i) {
    const int left = batch.real[i][0][0][0].item<uint8_t>();
    const int right = batch.real[i][0][0][1].item<uint8_t>();
    all.push_back(std::min(left, right));
  }
  return all;
}

void wait_for_loads(const Numbered& dataset, int count) {
  const double end = monotonic_seconds() + 60;
  while (dataset.loads < count && monotonic_seconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(dataset.loads >= count);
}

}  // namespace

TEST_CASE("PicturesAreAveragedDownToASmallerStage") {
  DataOptions options = with_workers(0);
  options.resolution = {1, 1};
  Loader loader(std::make_shared<Numbered>(), options, 3, {}, 0, 8);
  // Half of a picture is its index, half 255 - index: 127.5, which rounds to 128.
  const Batch batch = loader.next();
  CHECK(batch.real.sizes() == at::IntArrayRef({8, 1, 1, 1}));
  CHECK((batch.real == 128).all().item<bool>());
}

TEST_CASE("RectanglesComeAsRowsAndColumns") {
  DataOptions options;
  options.resolution = {12, 8};
  options.workers = 0;
  const auto shapes = open_dataset(options);
  Loader loader(shapes, options, 3, {}, 0, 2);
  const Batch batch = loader.next();
  CHECK(batch.real.sizes() == at::IntArrayRef({2, 3, 8, 12}));
  const Sampler sampler(shapes->size(), 3, /*mirror=*/false);
  const Image first = shapes->load(sampler.index(0));
  for (const auto& [x, y] : {std::pair(0, 0), std::pair(11, 0), std::pair(0, 7), std::pair(5, 6)}) {
    const auto pixel = static_cast<size_t>((y * 12 + x) * 3);
    CHECK(batch.real[0][1][y][x].item<uint8_t>() == first.pixels[pixel + 1]);
  }
}

TEST_CASE("RanksTogetherSeeWhatOneRankSeesForThreePasses") {
  const int64_t world = GENERATE(1, 2, 3);
  const int64_t workers = GENERATE(0, 1, 3);
  const auto dataset = std::make_shared<Numbered>();
  const int64_t batch = 12;
  const Sampler sampler(kPrime, 4, false);
  std::vector<std::unique_ptr<Loader>> loaders;
  for (int64_t rank = 0; rank < world; ++rank) {
    loaders.push_back(std::make_unique<Loader>(
        dataset, with_workers(workers), 4, RankInfo{rank, world}, 0, batch));
  }
  std::vector<int> shown(kPrime, 0);
  int64_t image = 0;
  for (int64_t step = 0; step * batch < 3 * kPrime; ++step) {
    std::vector<int64_t> global(static_cast<size_t>(batch));
    for (int64_t rank = 0; rank < world; ++rank) {
      Loader& loader = *loaders[static_cast<size_t>(rank)];
      const Batch part = loader.next();
      CHECK(loader.first() == step * batch);
      const auto own = indices(part);
      REQUIRE(static_cast<int64_t>(own.size()) == batch / world);
      for (size_t i = 0; i < own.size(); ++i) {
        global[i * static_cast<size_t>(world) + static_cast<size_t>(rank)] = own[i];
        CHECK(part.labels[static_cast<int64_t>(i)].item<int64_t>() == own[i] % 7);
      }
    }
    for (const int64_t index : global) {
      CHECK(index == sampler.index(image));
      if (image < 3 * kPrime) ++shown[static_cast<size_t>(index)];
      ++image;
    }
  }
  CHECK(shown == std::vector<int>(kPrime, 3));
}

TEST_CASE("APassOverMorePicturesThanAreListedRepeatsNone") {
  constexpr int64_t kPictures = Sampler::kListed + 43;
  const Sampler sampler(kPictures, 4, false), again(kPictures, 4, false);
  std::set<int64_t> shown;
  constexpr int64_t kLooked = 20'000;
  for (int64_t i = kPictures - kLooked; i < kPictures; ++i) {
    const int64_t index = sampler.index(i);
    REQUIRE((index >= 0 && index < kPictures));
    REQUIRE(shown.insert(index).second);
    REQUIRE(again.index(i) == index);
  }
  size_t same = 0;
  for (int64_t i = 0; i < kLooked; ++i)
    same += sampler.index(i) == sampler.index(kPictures + i) ? 1 : 0;  // the next pass
  CHECK(same < 3);
}

TEST_CASE("LoaderStartsAtAnyImage") {
  const auto dataset = std::make_shared<Numbered>();
  const int64_t start = 777;
  Loader loader(dataset, with_workers(2), 1, {}, start, 8);
  const Sampler sampler(kPrime, 1, false);
  for (int64_t step = 0; step < 5; ++step) {
    const Batch batch = loader.next();
    CHECK(loader.first() == start + 8 * step);
    const auto own = indices(batch);
    for (int64_t i = 0; i < 8; ++i)
      CHECK(own[static_cast<size_t>(i)] == sampler.index(loader.first() + i));
  }
}

TEST_CASE("MirroredImagesAreFlippedAsTheSamplerSays") {
  const auto dataset = std::make_shared<Numbered>();
  Loader loader(dataset, with_workers(1, true), 6, {1, 2}, 0, 40);
  const Sampler sampler(kPrime, 6, true);
  const Batch batch = loader.next();
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t image = 1 + 2 * i;
    const int left = batch.real[i][0][1][0].item<uint8_t>();
    const int64_t index = sampler.index(image);
    CHECK(left == (sampler.flipped(image) ? 255 - index : index));
  }
}

TEST_CASE("PlanesComeInOrderOfTheChannels") {
  DataOptions options;
  options.resolution = {16, 16};
  options.workers = 0;
  const auto shapes = open_dataset(options);
  Loader loader(shapes, options, 0, {}, 0, 4);
  const Batch batch = loader.next();
  CHECK(batch.real.sizes() == at::IntArrayRef{4, 3, 16, 16});
  CHECK(batch.real.scalar_type() == at::kByte);
  const Image first = shapes->load(Sampler(shapes->size(), 0, false).index(0));
  const auto hwc = batch.real[0].permute({1, 2, 0}).contiguous();
  const auto* data = hwc.data_ptr<uint8_t>();
  CHECK(std::vector<uint8_t>(data, data + hwc.numel()) == first.pixels);
}

TEST_CASE("LabelsAreUndefinedWithoutClasses") {
  const auto dataset = std::make_shared<Numbered>();
  dataset->with_labels = false;
  CHECK_FALSE(Loader(dataset, with_workers(1), 0, {}, 0, 4).next().labels.defined());
}

TEST_CASE("ErrorsOfWorkersReachTheCallerAtTheirBatch") {
  const auto dataset = std::make_shared<Numbered>();
  const Sampler sampler(kPrime, 2, false);
  dataset->bad = sampler.index(21);
  Loader loader(dataset, with_workers(GENERATE(0, 1, 4)), 2, {}, 0, 8);
  loader.next();
  loader.next();
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(loader.next(), UserError);
}

TEST_CASE("LoaderWorksAheadButNotWithoutBound") {
  const auto dataset = std::make_shared<Numbered>();
  Loader loader(dataset, with_workers(2), 0, {}, 0, 10);
  wait_for_loads(*dataset, 40);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(dataset->loads == 40);
  dataset->closed = true;
  for (int i = 0; i < 4; ++i) loader.next();  // they were there
  CHECK(dataset->loads == 40);
  dataset->closed = false;
  wait_for_loads(*dataset, 80);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(dataset->loads == 80);
}

TEST_CASE("WorkersBlockAllSignals") {
  const auto dataset = std::make_shared<Numbered>();
  Loader loader(dataset, with_workers(2), 0, {}, 0, 4);
  loader.next();
  CHECK_FALSE(dataset->signals_open);
}

TEST_CASE("LoaderTellsHowLongItWaited") {
  const auto dataset = std::make_shared<Numbered>();
  dataset->seconds = 0.05;
  const double start = monotonic_seconds();
  Loader loader(dataset, with_workers(1), 0, {}, 0, 8);
  const double asked = monotonic_seconds();
  loader.next();
  CHECK(asked - start + loader.waited() >= 0.4);
  const double before = monotonic_seconds();
  loader.next();
  CHECK(loader.waited() <= monotonic_seconds() - before);
}

TEST_CASE("WorkersShareThePicturesOfABatch") {
  const auto dataset = std::make_shared<Numbered>();
  dataset->closed = true;  // four threads wait in four pictures of one batch
  Loader loader(dataset, with_workers(4), 0, {}, 0, 4);
  const double end = monotonic_seconds() + 60;
  while (dataset->begun < 4 && monotonic_seconds() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(dataset->begun == 4);
  dataset->closed = false;
  const Sampler sampler(kPrime, 0, false);
  const auto own = indices(loader.next());
  for (int64_t i = 0; i < 4; ++i) CHECK(own[static_cast<size_t>(i)] == sampler.index(i));
}

TEST_CASE("LoaderEndsInTheMiddleOfABatch") {
  const auto dataset = std::make_shared<Numbered>();
  dataset->seconds = 0.02;
  {
    Loader loader(dataset, with_workers(2), 0, {}, 0, 400);
    wait_for_loads(*dataset, 2);
  }
  CHECK(dataset->loads < 200);  // of the 800 of two batches
}

TEST_CASE("TheFirstPictureOfABatchThatFailsIsTheOneThatIsNamed") {
  const auto dataset = std::make_shared<Numbered>();
  const Sampler sampler(kPrime, 2, false);
  dataset->bad = sampler.index(5);
  dataset->worse = sampler.index(30);
  Loader loader(dataset, with_workers(4), 2, {}, 0, 40);
  const std::string named = fmt::format("picture {}", dataset->bad);
  CHECK_THROWS_WITH(loader.next(), named);
  CHECK_THROWS_WITH(loader.next(), named);
}

TEST_CASE("MemoryOfABatchIsUsedAgainOnceNobodyHoldsIt") {
  const auto dataset = std::make_shared<Numbered>();
  const int64_t workers = GENERATE(0, 2);
  Loader loader(dataset, with_workers(workers), 0, {}, 0, 8);
  std::set<const void*> seen;
  for (int i = 0; i < 40; ++i) seen.insert(loader.next().real.data_ptr());
  CHECK(seen.size() <= 5);
}

TEST_CASE("BatchesThatAreHeldKeepTheirPictures") {
  const auto dataset = std::make_shared<Numbered>();
  const Sampler sampler(kPrime, 0, false);
  Loader loader(dataset, with_workers(GENERATE(0, 3)), 0, {}, 0, 8);
  std::vector<at::Tensor> views;  // of the same memory, without the batch itself
  for (int i = 0; i < 20; ++i) views.push_back(loader.next().real.view({8, 4}));
  for (int64_t i = 0; i < 160; ++i) {
    const int first = views[static_cast<size_t>(i / 8)][i % 8][0].item<uint8_t>();
    CHECK(first == sampler.index(i));
  }
}

TEST_CASE("BatchSmallerThanTheWorldIsABug") {
  const auto dataset = std::make_shared<Numbered>();
  CHECK_THROWS_AS(Loader(dataset, with_workers(0), 0, {0, 4}, 0, 3), c10::Error);
  CHECK_THROWS_AS(Loader(dataset, with_workers(0), 0, {4, 4}, 0, 8), c10::Error);
}

TEST_CASE("EachPassShowsEachPictureOnce") {
  const Sampler sampler(kPrime, 7, false);
  std::vector<std::vector<int64_t>> passes(3);
  for (int64_t n = 0; n < 3 * kPrime; ++n) {
    passes[static_cast<size_t>(n / kPrime)].push_back(sampler.index(n));
  }
  for (const auto& pass : passes) {
    CHECK(std::set<int64_t>(pass.begin(), pass.end()).size() == kPrime);
    CHECK(*std::min_element(pass.begin(), pass.end()) == 0);
    CHECK(*std::max_element(pass.begin(), pass.end()) == kPrime - 1);
  }
  CHECK(passes[0] != passes[1]);
  CHECK(passes[1] != passes[2]);
}

TEST_CASE("OrderDependsOnTheSeedAlone") {
  const Sampler a(kPrime, 1, false);
  const Sampler b(kPrime, 1, true);
  const Sampler c(kPrime, 2, false);
  int same = 0;
  for (int64_t n = 0; n < kPrime; ++n) {
    CHECK(a.index(n) == b.index(n));
    same += a.index(n) == c.index(n);
  }
  CHECK(same < 20);
}

TEST_CASE("AnyImageCanBeAskedForInAnyOrder") {
  const Sampler forward(kPrime, 3, true);
  std::vector<int64_t> order;
  for (int64_t n = 0; n < 5 * kPrime; ++n) order.push_back(forward.index(n));
  const Sampler backward(kPrime, 3, true);
  for (int64_t n = 5 * kPrime - 1; n >= 0; --n) {
    CHECK(backward.index(n) == order[static_cast<size_t>(n)]);
    CHECK(backward.flipped(n) == forward.flipped(n));
  }
}

TEST_CASE("MirrorFlipsHalfOfTheImagesAndNothingElseDoes") {
  const Sampler mirrored(kPrime, 5, true);
  const Sampler plain(kPrime, 5, false);
  int flipped = 0;
  int changed = 0;
  for (int64_t n = 0; n < 4000; ++n) {
    flipped += mirrored.flipped(n);
    changed += mirrored.flipped(n) != mirrored.flipped(n + kPrime);
    CHECK_FALSE(plain.flipped(n));
  }
  CHECK(std::abs(flipped - 2000) < 150);
  CHECK(std::abs(changed - 2000) < 150);  // the next pass draws anew
}

TEST_CASE("SamplerServesManyThreads") {
  const Sampler sampler(kPrime, 9, false);
  const Sampler reference(kPrime, 9, false);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 0; n < 2000; ++n) {
        const int64_t image = (n * 37 + static_cast<int64_t>(t) * 211) % (7 * kPrime);
        wrong[t] += sampler.index(image) != reference.index(image);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("SamplerOfOnePictureRepeatsIt") {
  const Sampler sampler(1, 0, false);
  for (int64_t n = 0; n < 5; ++n) CHECK(sampler.index(n) == 0);
  CHECK_THROWS_AS(Sampler(0, 0, false), std::invalid_argument);
}

TEST_CASE("PicturesAreLoadedAsPlanesInTheOrderAskedFor") {
  DataOptions options;
  options.resolution = {24, 16};
  options.synth_size = 8;
  const auto shapes = make_shapes(options);
  const at::Tensor planes = load_planes(*shapes, {{5}, {2}, {5, true}});
  REQUIRE(planes.sizes() == at::IntArrayRef{3, 3, 16, 24});
  CHECK(planes[2].equal(planes[0].flip(2)));
  CHECK_FALSE(planes[0].equal(planes[1]));
  const Image image = shapes->load(2);
  for (const int64_t y : {0, 7, 15}) {
    for (const int64_t x : {0, 11, 23}) {
      for (int64_t c = 0; c < 3; ++c) {
        const uint8_t wanted = image.pixels[static_cast<size_t>((y * 24 + x) * 3 + c)];
        CHECK(planes[1][c][y][x].item<int64_t>() == wanted);
      }
    }
  }
}

}  // namespace gantrain
