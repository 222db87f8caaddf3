// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/number_types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>

#include "ops/gpu/launch.h"
#include "support/catch.h"

using namespace gantrain::cuda_kernels;

TEST_CASE("EveryHalfNumberIsWidenedAsLibTorchDoes") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto short_bits = static_cast<uint16_t>(bits);
    const float half = on_host::widened(Half{short_bits});
    const float expected_half = c10::Half(short_bits, c10::Half::from_bits());
    const float brain = on_host::widened(BFloat16{short_bits});
    const float expected_brain = c10::BFloat16(short_bits, c10::BFloat16::from_bits());
    REQUIRE((half == expected_half || (std::isnan(half) && std::isnan(expected_half))));
    REQUIRE((brain == expected_brain || (std::isnan(brain) && std::isnan(expected_brain))));
  }
}

TEST_CASE("FloatsAreRoundedToHalfNumbersAsLibTorchDoes") {
  const auto check = [](float x) {
    INFO(x);
    REQUIRE(rounded<Half>(x).bits == c10::Half(x).x);
    REQUIRE(rounded<BFloat16>(x).bits == c10::BFloat16(x).x);
  };
  for (const float x : {0.F,
                        -0.F,
                        65504.F,
                        65519.F,
                        65520.F,
                        1e9F,
                        -INFINITY,
                        INFINITY,
                        0x1p-24F,
                        0x1p-25F,
                        0x1.8p-25F,
                        0x1p-14F,
                        0x1.ffcp-15F,
                        0x1.ffep-15F,
                        1 + 0x1p-11F,
                        1 + 0x3p-11F,
                        3.4e38F})
    check(x);
  // A stride that is prime to 2^32 visits every exponent.
  for (uint32_t bits = 1, n = 0; n < 200000; ++n, bits += 21467) {
    const float x = on_host::from_bits(bits * 2654435761U);
    if (!std::isnan(x)) check(x);
  }
}

TEST_CASE("ADividerDividesAsTheProcessorDoes") {
  CHECK(Divider(0).quotient(5) == 5);  // of a task without numbers: it is never asked
  for (const int64_t by : {1, 2, 3, 5, 7, 31, 32, 33, 1000, 65537, (1 << 30) + 3, 0x7FFFFFFF}) {
    const Divider divider(by);
    for (uint64_t n = 0; n < 0x80000000U; n += 1 + n / 3 + n % 7) {
      INFO(n << " / " << by);
      REQUIRE(divider.quotient(static_cast<uint32_t>(n)) == n / static_cast<uint64_t>(by));
      REQUIRE(divider.remainder(static_cast<uint32_t>(n)) == n % static_cast<uint64_t>(by));
    }
    const uint32_t last = 0x7FFFFFFF;
    REQUIRE(divider.quotient(last) == last / static_cast<uint32_t>(by));
  }
}
