// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace gantrain {

using Numbers = std::vector<float>;

inline Numbers normal_numbers(int64_t count, unsigned seed, float mean = 0, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw(mean, deviation);
  Numbers numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = draw(random);
  return numbers;
}

}  // namespace gantrain
