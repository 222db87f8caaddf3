// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gantrain {

struct Interval {
  float low = 0;
  float high = 0;
};

// Computes the cost of moving one set of numbers onto another of equal size: the sum of |a_i - b_i|
// over both in sorted order, which is the area between their counting functions. Numbers are
// counted into buckets, and only buckets in which the functions cross are sorted, which is several
// times faster than sorting both sets. An object keeps its memory between calls; each thread needs
// its own.
class Transport {
 public:
  // Returns the cost. All numbers must lie in `range`. The result is NaN if the range is not
  // finite.
  double cost(std::span<const float> a, std::span<const float> b, const Interval& range);

 private:
  struct Bucket {
    int32_t a = 0;  // how many numbers of a
    int32_t b = 0;
    float net = 0;  // sum of a's places in the bucket, in [0, 1), less the sum of b's
  };
  // Returns where a number lies on the scale of buckets: 3.25 is a quarter into bucket 3.
  float place(float x) const { return (x - low_) * factor_; }
  size_t bucket_of(float place) const {
    const auto bucket = static_cast<size_t>(static_cast<int32_t>(place));
    return bucket < buckets_.size() ? bucket : buckets_.size() - 1;
  }
  void count(std::span<const float> a, std::span<const float> b);
  double area_outside_crossings();
  double area_in_crossings(std::span<const float> a, std::span<const float> b);
  std::span<const float> sorted_in_crossings(std::span<const float> numbers,
                                             int32_t Bucket::*how_many,
                                             std::vector<float>& sorted);

  std::vector<Bucket> buckets_;
  std::vector<uint8_t> crossing_;  // 1 where the functions cross; apart, to stay in the cache
  std::vector<float> unsorted_, a_, b_;
  std::vector<size_t> ends_;
  float low_ = 0;
  float factor_ = 0;
};

}  // namespace gantrain
