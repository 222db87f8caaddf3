// SPDX-License-Identifier: Apache-2.0
#include "curation/look_alikes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "image/convert.h"
#include "image/resize.h"

namespace gantrain {

namespace {

// Levels of 255. JPEG at quality 30 moves the mean of a cell by 1 to 3 levels, and a picture's
// quarter by less than one; another motif moves single cells by 50 and more.
constexpr float kQuarterDiffers = 3;
constexpr float kMostOnAverage = 5, kLeastOnAverage = 1;
constexpr float kMostInACell = 48, kLeastInACell = 6;
constexpr float kAspectDiffers = 0.06F;

constexpr float kBucket = 2 * kQuarterDiffers;  // so that neighbours lie in one of two buckets

float luma(const uint8_t* rgb) { return 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2]; }

int64_t bucket_of(float quarter) { return static_cast<int64_t>(std::floor(quarter / kBucket)); }

uint64_t key_of(const std::array<int64_t, 4>& buckets) {
  uint64_t key = 0;
  for (const int64_t bucket : buckets) key = key << 8 | static_cast<uint64_t>(bucket & 0xff);
  return key;
}

// The keys of all buckets that may hold a quarter within kQuarterDiffers of this one's.
std::vector<uint64_t> keys_near(const Look& look) {
  std::vector<uint64_t> keys;
  for (unsigned choice = 0; choice < 16; ++choice) {
    std::array<int64_t, 4> buckets{};
    for (unsigned q = 0; q < 4; ++q) {
      const float shift = (choice >> q & 1U) != 0 ? kQuarterDiffers : -kQuarterDiffers;
      buckets[q] = bucket_of(look.quarters[q] + shift);
    }
    keys.push_back(key_of(buckets));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

void measure(Look& look) {
  constexpr int64_t side = Look::kSide;
  constexpr double cells_of_quarter = side * side / 4.0;
  double sums[3] = {}, squares = 0;
  for (int64_t cell = 0; cell < side * side; ++cell) {
    const uint8_t* rgb = &look.cells[static_cast<size_t>(cell) * 3];
    const bool low = cell / side >= side / 2, right = cell % side >= side / 2;
    look.quarters[(low ? 2U : 0U) + (right ? 1U : 0U)] += luma(rgb) / cells_of_quarter;
    for (int c = 0; c < 3; ++c) {
      sums[c] += rgb[c];
      squares += double{1} * rgb[c] * rgb[c];
    }
  }
  double variance = squares / (3 * side * side);
  for (const double sum : sums) variance -= sum * sum / (3.0 * side * side * side * side);
  look.contrast = static_cast<float>(std::sqrt(std::max(0.0, variance)));
}

}  // namespace

Look look_of(const Image& image) {
  const Image small = resize(image, Size{Look::kSide, Look::kSide}, Filter::kBox);
  const Image rgb = with_channels(small, 3);
  Look look;
  std::copy(rgb.pixels.begin(), rgb.pixels.end(), look.cells.begin());
  look.aspect = static_cast<float>(image.width) / static_cast<float>(image.height);
  measure(look);
  return look;
}

bool look_alike(const Look& a, const Look& b) {
  if (std::abs(std::log(a.aspect / b.aspect)) > kAspectDiffers) return false;
  for (size_t q = 0; q < a.quarters.size(); ++q) {
    if (std::abs(a.quarters[q] - b.quarters[q]) > kQuarterDiffers) return false;
  }
  const float contrast = std::min(a.contrast, b.contrast);
  const auto in_a_cell = static_cast<int>(std::clamp(contrast, kLeastInACell, kMostInACell));
  const float on_average = std::clamp(contrast / 10, kLeastOnAverage, kMostOnAverage);
  const auto most = static_cast<int>(on_average * static_cast<float>(a.cells.size()));
  int sum = 0;
  for (size_t i = 0; i < a.cells.size(); ++i) {
    const int difference = std::abs(int{a.cells[i]} - int{b.cells[i]});
    sum += difference;
    if (difference > in_a_cell || sum > most) return false;
  }
  return true;
}

std::optional<int64_t> LookAlikes::add(int64_t picture, const Look& look) {
  for (const uint64_t key : keys_near(look)) {
    const auto found = by_cell_.find(key);
    if (found == by_cell_.end()) continue;
    for (const uint32_t at : found->second) {
      if (look_alike(firsts_[at].look, look)) return firsts_[at].picture;
    }
  }
  std::array<int64_t, 4> buckets{};
  for (size_t q = 0; q < buckets.size(); ++q) buckets[q] = bucket_of(look.quarters[q]);
  by_cell_[key_of(buckets)].push_back(static_cast<uint32_t>(firsts_.size()));
  firsts_.push_back({picture, look});
  return std::nullopt;
}

}  // namespace gantrain
