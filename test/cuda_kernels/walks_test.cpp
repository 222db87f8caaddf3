// SPDX-License-Identifier: Apache-2.0
// The walks over feature maps (ops/gpu/planes_walk.h) where numbers have more than 32 bits: only
// offsets are noted, so that no memory is needed.
#include <random>

#include "ops/gpu/planes_walk.h"
#include "support/catch.h"

using namespace gantrain::cuda_kernels;

namespace {

constexpr int64_t kLarge = 3 * (int64_t{1} << 31);

struct Noted {
  int64_t calls = 0, wrong = 0;
  uint64_t offsets = 0;  // their sum
};

template <int kSize, Order kPlace>
struct NoteOffsets : WorkOf<Half, kSize, kPlace, 0> {
  struct Terms {
    int64_t sample, channel;
  };
  Maps maps;
  Noted* noted;

  Terms terms(int64_t sample, int64_t channel) const { return {sample, channel}; }
  void operator()(int64_t at, int64_t pixel, const Terms& t, NoSums&) const {
    const int64_t expected = kPlace == Order::kPlanes
                                 ? (t.sample * maps.channels + t.channel) * maps.pixels + pixel
                                 : (t.sample * maps.pixels + pixel) * maps.channels + t.channel;
    ++noted->calls;
    noted->wrong += at == expected && at >= 0 && at + kSize <= maps.count() ? 0 : 1;
    noted->offsets += static_cast<uint64_t>(at);
  }
};

template <int kSize, Order kPlace>
Noted noted_in(const Maps& maps, const std::vector<int64_t>& blocks) {
  Noted noted;
  const Walk<kPlace> walk(maps, kSize);
  const MapsBody<NoteOffsets<kSize, kPlace>> body{walk, {{}, maps, &noted}};
  const auto run = [&](int64_t block) {
    for (int thread = 0; thread < kWalkThreads; ++thread) body({block, thread});
  };
  if (blocks.empty()) {
    for (int64_t block = 0; block < walk.blocks(); ++block) run(block);
  } else {
    for (const int64_t block : blocks) run(block % walk.blocks());
  }
  return noted;
}

const std::vector<Maps> kMaps = {{Order::kPlanes, 3, 2048, int64_t{1} << 20},
                                 {Order::kRows, 3, 2048, int64_t{1} << 20},
                                 {Order::kPlanes, kLarge / 1024, 512, 2},
                                 {Order::kRows, 6, 64, int64_t{1} << 24}};

}  // namespace

TEST_CASE("EveryPackOfLargeMapsIsVisitedOnce") {
  for (const Maps& maps : {kMaps[0], kMaps[3]}) {
    REQUIRE(maps.count() == kLarge);
    const Noted all = maps.order == Order::kPlanes ? noted_in<8, Order::kPlanes>(maps, {})
                                                   : noted_in<8, Order::kRows>(maps, {});
    const auto packs = static_cast<uint64_t>(kLarge / 8);
    CHECK(all.wrong == 0);
    CHECK(all.calls == kLarge / 8);
    CHECK(all.offsets == 8 * (packs * (packs - 1) / 2));
  }
}

TEST_CASE("SingleNumbersOfLargeMapsLieWhereTheyShould") {
  std::mt19937_64 random(3);
  std::vector<int64_t> blocks = {0, kLarge};
  for (int i = 0; i < 400; ++i) blocks.push_back(static_cast<int64_t>(random() >> 2));
  for (const Maps& maps : kMaps) {
    REQUIRE(maps.count() == kLarge);
    const Noted some = maps.order == Order::kPlanes ? noted_in<1, Order::kPlanes>(maps, blocks)
                                                    : noted_in<1, Order::kRows>(maps, blocks);
    CHECK(some.wrong == 0);
    CHECK(some.calls > 0);
  }
}

TEST_CASE("DividersOfLargeNumbersAreExact") {
  std::mt19937_64 random(4);
  for (int i = 0; i < 200000; ++i) {
    const int64_t n = static_cast<int64_t>(random() >> (11 + random() % 40));
    const int64_t by = 1 + static_cast<int64_t>(random() >> (20 + random() % 44));
    if (LongDivider(by).quotient(n) != n / by || AnyDivider(by, n).quotient(n) != n / by)
      FAIL_CHECK(n << " / " << by);
  }
}
