// SPDX-License-Identifier: Apache-2.0
// The walks over feature maps (ops/gpu/planes_walk.h) and along summed axes (ops/gpu/summed_axis.h)
// where numbers have more than 32 bits: only offsets are noted, so that no memory is needed.
#include <random>

#include "ops/gpu/planes_walk.h"
#include "ops/gpu/summed_axis.h"
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

namespace {

// Visits some blocks of a walk along an axis; returns how many packs it visited, or -1 where one
// does not lie where its item and unit are.
template <int kSize, bool kAcross>
int64_t visited(const SummedAxis& axis, int64_t most_chunks) {
  const NormWalk<kSize, kAcross> walk(axis, most_chunks);
  const int64_t packs = kAcross ? axis.inner / kSize : 1;  // of a row
  std::mt19937_64 random(5);
  std::vector<int64_t> blocks = {0, walk.blocks() - 1};
  for (int i = 0; i < 20; ++i)
    blocks.push_back(static_cast<int64_t>(random() >> 2) % walk.blocks());
  int64_t calls = 0;
  bool right = true;
  for (const int64_t block : blocks) {
    for (int thread = 0; thread < NormWalk<kSize, kAcross>::kThreads; ++thread) {
      const auto part = walk.part({block, thread});
      int64_t unit = part.begin;
      walk.each(part, [&](int64_t at) {
        const int64_t row = part.item / packs, column = part.item % packs;
        const int64_t expected = kAcross ? (row * axis.length + unit) * axis.inner + column * kSize
                                         : part.item * axis.length + unit * kSize;
        right = right && at == expected && at >= 0 && at + kSize <= kLarge;
        unit += part.step;
        ++calls;
      });
    }
  }
  return right ? calls : -1;
}

}  // namespace

TEST_CASE("SumsAlongLargeAxesReadWhatIsTheirs") {
  const SummedAxis rows{kLarge / 1024, 1024, 1}, long_rows{kLarge >> 20, 1 << 20, 1};
  CHECK(visited<8, false>(rows, 1) > 0);
  CHECK(visited<1, false>(rows, 1) > 0);
  CHECK(visited<8, false>(long_rows, 64) > 0);
  CHECK(visited<1, false>(long_rows, 64) > 0);
  const SummedAxis columns{kLarge >> 20, 512, 2048}, long_columns{96, 1 << 20, 64};
  CHECK(visited<8, true>(columns, 1) > 0);
  CHECK(visited<1, true>(columns, 1) > 0);
  CHECK(visited<8, true>(long_columns, 64) > 0);
  CHECK(visited<1, true>(long_columns, 64) > 0);
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
