// SPDX-License-Identifier: Apache-2.0
#include <ATen/CPUGeneratorImpl.h>

#include "support/catch.h"
#include "support/tensor_checks.h"
#include "train/cpu_precision/cpu_precision.h"

using namespace gantrain;

namespace {

Product product(const char* text) { return product_from(text).value(); }

const Product kA = product("conv2d 64x16x16 64x64x3x3 p1x1"), kB = product("linear 64 32x64"),
              kC = product("conv_transpose2d 64x8x8 64x64x3x3 s2");

bool lowered(const ProductChoice& choice, const Product& one) { return choice.at(one); }

}  // namespace

TEST_CASE("Bfloat16IsChosenWhereItSavesATenth") {
  struct Row {
    double a, b, c;  // in bfloat16, where each takes a second in float32
    bool lower_a, lower_b, lower_c;
  };
  for (const Row& row : {Row{0.5, 0.5, 0.5, true, true, true},
                         Row{0.5, 1.5, 0.89, true, false, true},
                         Row{0.91, 0.95, 0.99, false, false, false},
                         Row{0.9, 3, 0.6, true, false, true},
                         Row{2, 1, 0.2, false, false, true}}) {
    CAPTURE(row.a, row.b, row.c);
    const ProductChoice choice = choose_types({{kA, 1, row.a}, {kB, 1, row.b}, {kC, 1, row.c}});
    CHECK(lowered(choice, kA) == row.lower_a);
    CHECK(lowered(choice, kB) == row.lower_b);
    CHECK(lowered(choice, kC) == row.lower_c);
  }
}

TEST_CASE("WhatSavesLittleOfAllIsNotLowered") {
  CHECK_FALSE(lowered(choose_types({{kA, 9, 9.5}, {kB, 4, 3}}), kB));  // 1 of 13 seconds
  CHECK(lowered(choose_types({{kA, 9, 9.5}, {kB, 4, 2.5}}), kB));      // 1.5 of 13
  CHECK(choose_types({}).empty());
}

TEST_CASE("TheChosenTypesAreNeverSlowerThanFloat32") {
  for (double ratio = 0.1; ratio < 2; ratio += 0.07) {
    const std::vector<ProductTimes> times = {{kA, 3, 3 * ratio}, {kB, 1, 2 - ratio}, {kC, 2, 1.9}};
    const ChosenSums sums = sum_times(times, choose_types(times));
    CHECK(sums.float32 == 6);
    CHECK(sums.chosen <= sums.float32);
  }
}

TEST_CASE("EachProductKeepsItsLeastTimeAndTheHeaviestIsTimedFirst") {
  const ProductRecord record = {{kA, {8, 1, 1, 1}}, {kB, {8, 1, 1, 1}}, {kC, {8, 1, 0, 0}}};
  std::vector<Product> order;
  std::map<Product, int> calls;
  const auto times = time_products(record, 60, [&](const Product& one, const ProductUses&) {
    order.push_back(one);
    const int call = ++calls[one];
    // A's ratio is clear at once, C's never; the second call is the fastest.
    const double noise = call == 2 ? 0 : 1.0 / call;
    return ProductTimes{one, 1 + noise, (one == kA ? 0.5 : 0.9) * (1 + noise)};
  });
  REQUIRE(times.size() == 3);
  CHECK(order.front() == kA);
  CHECK(times.front().product == kA);
  for (const ProductTimes& one : times) CHECK(one.float32 == 1);
  CHECK(calls.at(kA) == 2);
  CHECK(calls.at(kC) > 2);
}

TEST_CASE("MeasuringEndsWithItsBudget") {
  int calls = 0;
  const auto times =
      time_products({{kA, {8, 1}}, {kB, {8, 1}}}, -1, [&](const Product& one, const ProductUses&) {
        ++calls;
        return ProductTimes{one, 1, 1};
      });
  CHECK(times.empty());
  CHECK(calls == 0);
}

TEST_CASE("EveryKindOfProductCanBeTimed") {
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state().clone();
  for (const char* text : {"conv2d 8x16x16 8x8x3x3 p1x1",
                           "conv2d 8x17x17 8x4x3x3 s2 g2",
                           "conv_transpose2d 8x8x8 8x8x4x4 s2 p1x1",
                           "linear 16 8x16",
                           "conv2d 256x64x64 256x256x3x3 p1x1"}) {
    CAPTURE(text);
    const ProductTimes times = time_once(product(text), {4, 2, 1, 1});
    CHECK(times.float32 > 0);
    CHECK(times.bfloat16 > 0);
  }
  CHECK(torch::equal(generator.get_state(), before));  // no draw was taken
}
