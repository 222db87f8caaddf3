// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "data/load/threads.h"
#include "util/error.h"

namespace gantrain {

namespace {

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
  try {
    scan_pictures(evenly_spaced(10000, 10000), slow, false, [] { return true; });
    FAIL("not stopped");
  } catch (const UserError& error) {
    CHECK(error.code() == Exit::kStopped);
  }
  CHECK(looked < 5000);  // all of them would take eight threads 25 seconds
}

TEST_CASE("ScanPassesOnWhatIsNotThePicturesFault") {
  const auto broken = [](int64_t) -> ImageInfo { throw std::logic_error("bug"); };
  CHECK_THROWS_AS(scan_pictures({0, 1, 2}, broken, true, {}), std::logic_error);
}

}  // namespace gantrain
