// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "metrics/sliced_wasserstein.h"

namespace gantrain {
namespace {

using Numbers = std::vector<float>;

double by_sorting(Numbers a, Numbers b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - b[i]);
  return sum;
}

ValueRange range_of(const Numbers& a, const Numbers& b) {
  Numbers all = a;
  all.insert(all.end(), b.begin(), b.end());
  const auto [low, high] = std::minmax_element(all.begin(), all.end());
  return {*low, *high};
}

template <class Draw>
Numbers drawn(size_t count, uint32_t seed, Draw draw) {
  std::mt19937 random(seed);
  Numbers numbers(count);
  for (float& x : numbers) x = static_cast<float>(draw(random));
  return numbers;
}

void check(const Numbers& a, const Numbers& b) {
  const ValueRange range = range_of(a, b);
  const double wanted = by_sorting(a, b);
  // Rounding of places: 2^-24 of the range for each number at worst.
  const double slack = (range.high - range.low) * 0x1p-24 * static_cast<double>(a.size());
  CHECK(std::abs(Transport().cost(a, b, range) - wanted) <= slack + 1e-6 * wanted);
}

TEST_CASE("TransportCostIsThatOfSortedNumbers") {
  const size_t count = GENERATE(1, 2, 7, 100, 5000, 300000);
  const auto normal = std::normal_distribution<double>();
  const auto uniform = std::uniform_real_distribution<double>(-3, 5);
  SECTION("equal distributions: the counting functions cross often") {
    check(drawn(count, 1, normal), drawn(count, 2, normal));
  }
  SECTION("different distributions") { check(drawn(count, 1, normal), drawn(count, 2, uniform)); }
  SECTION("many equal numbers") {
    auto whole = [d = normal](auto& random) mutable { return std::round(2 * d(random)); };
    check(drawn(count, 1, whole), drawn(count, 2, whole));
  }
  SECTION("one far away") {
    Numbers a = drawn(count, 1, normal);
    a[0] = 1e4f;
    check(a, drawn(count, 2, normal));
  }
  SECTION("no overlap") {
    auto far = [d = normal](auto& random) mutable { return 100 + d(random); };
    check(drawn(count, 1, normal), drawn(count, 2, far));
  }
}

TEST_CASE("TransportOfASetOntoItselfCostsNothing") {
  Numbers a = drawn(20000, 1, std::normal_distribution<double>());
  Numbers b = a;
  std::reverse(b.begin(), b.end());
  CHECK(Transport().cost(a, b, range_of(a, b)) < 1e-3);
  const Numbers same(10, 0.5f);
  CHECK(Transport().cost(same, same, range_of(same, same)) == 0);
}

TEST_CASE("TransportDoesNotDependOnWhatWasAskedBefore") {
  const Numbers a = drawn(900, 1, std::normal_distribution<double>());
  const Numbers b = drawn(900, 2, std::normal_distribution<double>());
  Transport used;
  used.cost(drawn(50000, 3, std::normal_distribution<double>()), Numbers(50000, 1.0f), {-9, 9});
  CHECK(used.cost(a, b, range_of(a, b)) == Transport().cost(a, b, range_of(a, b)));
}

TEST_CASE("TransportOfWhatIsNotFiniteIsNotANumber") {
  const Numbers a = {0, std::numeric_limits<float>::infinity()};
  CHECK(std::isnan(Transport().cost(a, a, range_of(a, a))));
}

}  // namespace
}  // namespace gantrain
