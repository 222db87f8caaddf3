// SPDX-License-Identifier: Apache-2.0
#include "data/load/threads.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "support/catch.h"
#include "support/pictures.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Made = std::function<int64_t(int64_t)>;
using Taken = std::function<void(int64_t, int64_t&&)>;

TEST_CASE("ResultsAreTakenInOrder") {
  for (const int64_t threads : {1, 3, 8}) {
    std::vector<int64_t> taken;
    const Made make = [](int64_t piece) {
      if (piece % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      return piece * piece;
    };
    const Taken take = [&](int64_t piece, int64_t&& result) {
      CHECK(result == piece * piece);
      taken.push_back(piece);
    };
    CHECK(work_in_order<int64_t>({.count = 500, .threads = threads}, make, take, {}));
    REQUIRE(taken.size() == 500);
    for (int64_t i = 0; i < 500; ++i) CHECK(taken[static_cast<size_t>(i)] == i);
  }
}

TEST_CASE("ThreadsRunAheadByABoundedNumberOfPieces") {
  const WorkSize size = {.count = 300, .threads = 4};
  std::atomic<int64_t> made = 0;
  int64_t most = 0;
  const Made make = [&](int64_t piece) {
    made += 1;
    return piece;
  };
  const Taken take = [&](int64_t piece, int64_t&&) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    most = std::max(most, made - piece);
  };
  work_in_order<int64_t>(size, make, take, {});
  CHECK(made == 300);
  CHECK(most <= static_cast<int64_t>(slots(size)));
}

TEST_CASE("ErrorsOfBothSidesAreRethrown") {
  const Made fails = [](int64_t piece) {
    if (piece == 20) throw std::runtime_error("made");
    return piece;
  };
  const Made works = [](int64_t piece) { return piece; };
  const Taken takes = [](int64_t, int64_t&&) {};
  const Taken refuses = [](int64_t piece, int64_t&&) {
    if (piece == 20) throw std::runtime_error("taken");
  };
  const WorkSize size = {.count = 100, .threads = 4};
  CHECK_THROWS_WITH(work_in_order<int64_t>(size, fails, takes, {}), "made");
  CHECK_THROWS_WITH(work_in_order<int64_t>(size, works, refuses, {}), "taken");
}

TEST_CASE("AStopEndsTheWork") {
  std::atomic<int64_t> made = 0;
  const Made make = [&](int64_t piece) {
    made += 1;
    return piece;
  };
  const WorkSize size = {.count = 1000000, .threads = 2};
  CHECK_FALSE(work_in_order<int64_t>(
      size, make, [](int64_t, int64_t&&) {}, [] { return true; }));
  CHECK(made < 1000000);
}

TEST_CASE("NoWorkIsDoneAtOnce") {
  CHECK(work_in_order<int64_t>(
      {.count = 0, .threads = 2}, [](int64_t i) { return i; }, [](int64_t, int64_t&&) {}, {}));
}

ImageInfo look_at(int64_t picture) {
  if (picture % 10 == 3) fail(Exit::kInput, "picture {}", picture);
  return {.width = 1, .height = 1, .channels = picture == 44 ? 3 : 1};
}

}  // namespace

TEST_CASE("EvenlySpacedCoversTheWholeRange") {
  CHECK(evenly_spaced(4, 10) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(evenly_spaced(10, 4) == std::vector<int64_t>{0, 2, 5, 7});
  CHECK(evenly_spaced(1000000, 2000).size() == 2000);
  CHECK(evenly_spaced(1000000, 2000).back() == 999500);
}

TEST_CASE("ScanFindsEveryBadPictureInOrder") {
  const ScanResult result = scan_pictures(evenly_spaced(50, 50), look_at, false, {});
  CHECK(result.color);
  REQUIRE(result.bad.size() == 5);
  CHECK(result.bad[0].picture == 3);
  CHECK(result.bad[4].picture == 43);
  CHECK(result.bad[1].reason == "picture 13");
  CHECK_FALSE(scan_pictures(evenly_spaced(40, 40), look_at, false, {}).color);
}

TEST_CASE("ScanThatStopsAtBadEndsSoonAfterTheFirst") {
  std::atomic<int> looked = 0;
  const auto slow = [&](int64_t picture) {
    ++looked;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return look_at(picture);
  };
  const ScanResult result = scan_pictures(evenly_spaced(10000, 10000), slow, true, {});
  CHECK(looked <= 8 * 52);  // each of at most eight threads: 50 in its second, and those around it
  CHECK(result.bad.front().picture == 3);
}

TEST_CASE("AStopEndsTheScanInTheMiddle") {
  std::atomic<int> looked = 0;
  const auto slow = [&](int64_t) -> ImageInfo {
    ++looked;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return {.width = 1, .height = 1, .channels = 1};
  };
  CHECK_FALSE(user_error(Exit::kStopped, [&] {
                scan_pictures(evenly_spaced(10000, 10000), slow, false, [] { return true; });
              }).empty());
  CHECK(looked < 5000);  // all of them would take eight threads 25 seconds
}

TEST_CASE("ScanPassesOnWhatIsNotThePicturesFault") {
  const auto broken = [](int64_t) -> ImageInfo { throw std::logic_error("bug"); };
  CHECK_THROWS_AS(scan_pictures({0, 1, 2}, broken, true, {}), std::logic_error);
}

}  // namespace gantrain
