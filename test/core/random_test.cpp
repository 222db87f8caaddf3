// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

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

TEST_CASE("NeighbouringSamplesShareNoBits") {
  const Stream s(0, "");
  int ones = 0;
  for (uint32_t i = 0; i < 1000; ++i) ones += __builtin_popcount(s.bits(i, 0) ^ s.bits(i + 1, 0));
  CHECK(ones / 1000.0 == Approx(16).margin(0.5));
}
