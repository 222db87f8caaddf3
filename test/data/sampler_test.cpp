// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>
#include <thread>

#include "data/load/loader.h"

namespace gantrain {

constexpr int64_t kPrimePictures = 101;

TEST_CASE("EachPassShowsEachPictureOnce") {
  const Sampler sampler(kPrimePictures, 7, false);
  std::vector<std::vector<int64_t>> passes(3);
  for (int64_t n = 0; n < 3 * kPrimePictures; ++n) {
    passes[static_cast<size_t>(n / kPrimePictures)].push_back(sampler.index(n));
  }
  for (const auto& pass : passes) {
    CHECK(std::set<int64_t>(pass.begin(), pass.end()).size() == kPrimePictures);
    CHECK(*std::min_element(pass.begin(), pass.end()) == 0);
    CHECK(*std::max_element(pass.begin(), pass.end()) == kPrimePictures - 1);
  }
  CHECK(passes[0] != passes[1]);
  CHECK(passes[1] != passes[2]);
}

TEST_CASE("OrderDependsOnTheSeedAlone") {
  const Sampler a(kPrimePictures, 1, false);
  const Sampler b(kPrimePictures, 1, true);
  const Sampler c(kPrimePictures, 2, false);
  int same = 0;
  for (int64_t n = 0; n < kPrimePictures; ++n) {
    CHECK(a.index(n) == b.index(n));
    same += a.index(n) == c.index(n);
  }
  CHECK(same < 20);
}

TEST_CASE("AnyImageCanBeAskedForInAnyOrder") {
  const Sampler forward(kPrimePictures, 3, true);
  std::vector<int64_t> order;
  for (int64_t n = 0; n < 5 * kPrimePictures; ++n) order.push_back(forward.index(n));
  const Sampler backward(kPrimePictures, 3, true);
  for (int64_t n = 5 * kPrimePictures - 1; n >= 0; --n) {
    CHECK(backward.index(n) == order[static_cast<size_t>(n)]);
    CHECK(backward.flipped(n) == forward.flipped(n));
  }
}

TEST_CASE("MirrorFlipsHalfOfTheImagesAndNothingElseDoes") {
  const Sampler mirrored(kPrimePictures, 5, true);
  const Sampler plain(kPrimePictures, 5, false);
  int flipped = 0;
  int changed = 0;
  for (int64_t n = 0; n < 4000; ++n) {
    flipped += mirrored.flipped(n);
    changed += mirrored.flipped(n) != mirrored.flipped(n + kPrimePictures);
    CHECK_FALSE(plain.flipped(n));
  }
  CHECK(std::abs(flipped - 2000) < 150);
  CHECK(std::abs(changed - 2000) < 150);  // the next pass draws anew
}

TEST_CASE("SamplerServesManyThreads") {
  const Sampler sampler(kPrimePictures, 9, false);
  const Sampler reference(kPrimePictures, 9, false);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 0; n < 2000; ++n) {
        const int64_t image = (n * 37 + static_cast<int64_t>(t) * 211) % (7 * kPrimePictures);
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

}  // namespace gantrain
