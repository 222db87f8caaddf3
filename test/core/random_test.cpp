// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "core/philox.h"
#include "support/catch.h"
#include "util/hash.h"

using namespace gantrain;

TEST_CASE("ADrawIsAFunctionOfItsKey") {
  const Stream a(1, "z", 5), b(1, "z", 5);
  CHECK(a.bits(7, 9) == b.bits(7, 9));
  CHECK(a.bits(7, 9) != Stream(2, "z", 5).bits(7, 9));
  CHECK(a.bits(7, 9) != Stream(1, "y", 5).bits(7, 9));
  CHECK(a.bits(7, 9) != Stream(1, "z", 6).bits(7, 9));
  CHECK(a.bits(7, 9) != Stream(1, "z", 5, 1).bits(7, 9));
  CHECK(a.bits(7, 9) != a.bits(8, 9));
}

TEST_CASE("NormalsHaveTheMomentsOfANormal") {
  std::vector<float> x(200000);
  Stream(3, "test").normal(x.data(), static_cast<int64_t>(x.size()), 0);
  double sum = 0, squares = 0, fourth = 0;
  for (const float v : x) {
    sum += v;
    squares += double{v} * v;
    fourth += std::pow(double{v}, 4);
  }
  const auto n = static_cast<double>(x.size());
  CHECK(std::abs(sum / n) < 0.01);
  CHECK(squares / n == Approx(1).margin(0.02));
  CHECK(fourth / n == Approx(3).margin(0.15));
}

TEST_CASE("AShorterDrawIsTheStartOfALongerOne") {
  std::vector<float> a(5), b(11);
  Stream(3, "test").normal(a.data(), 5, 2);
  Stream(3, "test").normal(b.data(), 11, 2);
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
}

TEST_CASE("UniformsLieInTheUnitInterval") {
  std::vector<float> x(100000);
  Stream(3, "test").uniform(x.data(), static_cast<int64_t>(x.size()), 0);
  CHECK(*std::min_element(x.begin(), x.end()) >= 0);
  CHECK(*std::max_element(x.begin(), x.end()) < 1);
  CHECK(std::accumulate(x.begin(), x.end(), 0.0) / 1e5 == Approx(0.5).margin(0.01));
}

TEST_CASE("APermutationHoldsEachNumberOnceAndMovesThem") {
  std::vector<int64_t> order = Stream(1, "order", 2).permutation(101);
  CHECK(order != Stream(1, "order", 3).permutation(101));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 101; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("AComputedPermutationHoldsEachNumberOnce") {
  const int64_t count = GENERATE(1, 2, 3, 5, 16, 17, 101, 4096, 4097);
  std::vector<int64_t> order, other;
  for (int64_t i = 0; i < count; ++i) {
    order.push_back(Stream(1, "order", 2).permuted(i, count));
    other.push_back(Stream(1, "order", 3).permuted(i, count));
  }
  if (count > 100) CHECK(order != other);
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < count; ++i) REQUIRE(order[static_cast<size_t>(i)] == i);
}

// A number goes to each place, and its neighbour to each distance from there, about as often.
TEST_CASE("AComputedPermutationPrefersNoPlace") {
  constexpr int64_t kCount = 101, kEach = 200;
  std::vector<double> places(kCount), distances(kCount);
  for (uint64_t pass = 0; pass < kCount * kEach; ++pass) {
    const Stream stream(7, "order", pass);
    const int64_t a = stream.permuted(50, kCount), b = stream.permuted(51, kCount);
    ++places[static_cast<size_t>(a)];
    ++distances[static_cast<size_t>((b - a + kCount) % kCount)];
  }
  CHECK(distances[0] == 0);
  double chi_squared[2] = {};
  for (size_t i = 0; i < kCount; ++i) {
    chi_squared[0] += std::pow(places[i] - kEach, 2) / kEach;
    const double expected = kEach * kCount / (kCount - 1.0);
    if (i > 0) chi_squared[1] += std::pow(distances[i] - expected, 2) / expected;
  }
  CHECK(chi_squared[0] < 165);  // 100 degrees of freedom: above in 4 of 100,000
  CHECK(chi_squared[1] < 164);
}

TEST_CASE("NeighbouringSamplesShareNoBits") {
  const Stream s(0, "");
  int ones = 0;
  for (uint32_t i = 0; i < 1000; ++i) ones += __builtin_popcount(s.bits(i, 0) ^ s.bits(i + 1, 0));
  CHECK(ones / 1000.0 == Approx(16).margin(0.5));
}

// Known answers of the authors' library (Random123, kat_vectors, philox4x32 of 10 rounds).
TEST_CASE("PhiloxGivesItsAuthorsNumbers") {
  CHECK(philox_rounds({0, 0, 0, 0}, 0) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_rounds({~0U, ~0U, ~0U, ~0U}, ~0ULL) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_rounds({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("AStreamsKeyIsTheHashOfItsNumbers") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    std::array<uint64_t, 3> numbers = {random(), random(), random()};
    if (i % 3 == 0) numbers = {numbers[0] % 100, numbers[1] % 1000, numbers[2] % 4};
    const uint64_t purpose = i == 0 ? 0 : random();
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers));
    CHECK(stream_key(purpose, numbers[0], numbers[1], numbers[2]) == hash64(bytes, purpose));
  }
}

TEST_CASE("TheHighWordOfAProductIsThatOf128Bits") {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t a = random() >> random() % 64, b = random() >> random() % 64;
    const auto wide = static_cast<unsigned __int128>(a) * b;
    CHECK(multiply_high(a, b) == static_cast<uint64_t>(wide >> 64));
  }
  CHECK(multiply_high(~0ULL, ~0ULL) == ~0ULL - 1);
}

// Numbers of the generator as it was when runs were first saved: a resumed run goes on with them.
TEST_CASE("DrawsStayWhatTheyWere") {
  const Stream stream(0x9123456789abcdef, "z", 12345678901, 3);
  CHECK(stream.bits(7, 9) == 143339912);
  CHECK(Stream(1, "z", 5).bits(7, 9) == 2542048680);
  CHECK(stream.bits(uint64_t{1} << 40, 1) == 2349751543);
  CHECK(stream.below(1000003, 4, 1) == 958330);
  CHECK(stream.below(uint64_t{1} << 50, 9) == 552419991453950);
  std::array<float, 5> normals{};
  stream.normal(normals.data(), 5, 2);
  CHECK(normals ==
        std::array<float, 5>{
            -0x1.83fd52p+0F, -0x1.2c525p-2F, 0x1.714c0cp-1F, 0x1.318d28p-1F, -0x1.2008dap-10F});
  std::array<float, 3> uniforms{};
  stream.uniform(uniforms.data(), 3, 2);
  CHECK(uniforms == std::array<float, 3>{0x1.647912p-1F, 0x1.0f9382p-1F, 0x1.6b5134p-2F});
}
