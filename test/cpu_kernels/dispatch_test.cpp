// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "ops/vector/cpu_kernels.h"

using namespace gantrain;

TEST_CASE("TheProcessorHasASetOfKernels") {
  CHECK(std::set<std::string>{"generic", "avx2", "avx512"}.count(cpu_kernels().name) == 1);
}
