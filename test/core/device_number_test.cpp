// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"
#include "core/torch.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {
double tenth(int64_t images) { return static_cast<double>(images) / 10; }
}  // namespace

TEST_CASE("ANumberThatNeverMovesStaysAPlainNumber") {
  DeviceNumber number = 2.5;
  CHECK_FALSE(number.moves());
  CHECK_FALSE(number.value().defined());
  number.advance_to(1000);
  CHECK(number.host() == 2.5);
  CHECK(number.times(torch::ones({2}), 2)[1].item<float>() == 5);
  CHECK(number.is_used());
  CHECK_FALSE(DeviceNumber(0).is_used());
}

TEST_CASE("ANumberThatMovesIsThatOfTheImagesSeen") {
  DeviceNumber number(tenth, at::kFloat);
  CHECK(number.moves());
  CHECK(number.is_used());  // though it is 0 now
  CHECK(number.host() == 0);
  const Tensor value = number.value();
  number.advance_to(25);
  CHECK(number.host() == 2.5);
  CHECK(value.item<float>() == 2.5F);  // the same tensor, moved in place
  CHECK(value.sizes().empty());
  CHECK(number.times(torch::ones({2}), 2)[1].item<float>() == 5);
  number.advance_to(0);
  CHECK(number.host() == 0);
}

TEST_CASE("CopiesShareTheirValue") {
  DeviceNumber number(tenth, at::kFloat);
  const DeviceNumber copy = number;
  number.advance_to(70);
  CHECK(copy.host() == 7);
  CHECK(copy.value().item<float>() == 7);
}

TEST_CASE("TheHostsValueKeepsAllItsDigits") {
  const DeviceNumber number([](int64_t) { return 1.0 / 3; }, at::kFloat);
  CHECK(number.host() == 1.0 / 3);
  const DeviceNumber wide([](int64_t) { return 1.0 / 3; }, at::kDouble);
  CHECK(wide.value().item<double>() == 1.0 / 3);
}

TEST_CASE("TimesAndLerpAreThoseOfTheNumberWhetherItMovesOrNot") {
  const Tensor x = torch::linspace(-1, 2, 5), y = torch::linspace(3, -4, 5);
  for (const double value : {0.0, 0.25, 0.5, 1.0, 3.0}) {
    CAPTURE(value);
    const DeviceNumber plain = value, moving([value](int64_t) { return value; }, at::kFloat);
    CHECK(torch::equal(plain.times(x, 3), moving.times(x, 3)));
    CHECK(torch::allclose(plain.times(x, 3), 3 * value * x));
    CHECK(torch::allclose(plain.lerp(x, y), moving.lerp(x, y), 1e-6, 1e-6));
    CHECK(torch::allclose(plain.lerp(x, y), x + (y - x) * value, 1e-6, 1e-6));
  }
}
