// SPDX-License-Identifier: Apache-2.0
#include "metrics/transport.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace gantrain {

namespace {

// About eight numbers a bucket: with more of them more buckets cross, and fewer would leave the
// cache.
size_t bucket_count(size_t numbers) {
  return std::clamp<size_t>(std::bit_ceil(numbers / 8 + 1), 16, 16384);
}

// Sorted places not yet passed.
struct Rest {
  std::span<const float> places;
  double first_before(double edge) const {
    return !places.empty() && places.front() < edge ? places.front() : edge;
  }
  void pass() { places = places.subspan(1); }
};

// Area over [left, right), where `ahead` more of a than of b lie before left. Takes the numbers
// before right off both rests.
double area_between(double left, double right, int64_t ahead, Rest& a, Rest& b) {
  double area = 0;
  while (true) {
    const double next_a = a.first_before(right), next_b = b.first_before(right);
    const double next = std::min(next_a, next_b);
    area += static_cast<double>(std::abs(ahead)) * (next - left);
    if (next >= right) return area;
    left = next;
    if (next_a <= next_b) {
      a.pass(), ++ahead;
    } else {
      b.pass(), --ahead;
    }
  }
}

}  // namespace

void Transport::count(std::span<const float> a, std::span<const float> b) {
  for (const float x : a) {
    const float at = place(x);
    const size_t k = bucket_of(at);
    ++buckets_[k].a;
    buckets_[k].net += at - static_cast<float>(k);
  }
  for (const float x : b) {
    const float at = place(x);
    const size_t k = bucket_of(at);
    ++buckets_[k].b;
    buckets_[k].net -= at - static_cast<float>(k);
  }
}

// Where one function stays ahead through a bucket, the sum of places is all that counts.
double Transport::area_outside_crossings() {
  double area = 0;
  int64_t ahead = 0;  // more of a than of b before this bucket
  for (size_t k = 0; k < buckets_.size(); ++k) {
    const Bucket& bucket = buckets_[k];
    crossing_[k] = ahead < bucket.b && -ahead < bucket.a;
    const int64_t after = ahead + bucket.a - bucket.b;
    if (!crossing_[k]) area += std::abs(static_cast<double>(after) - bucket.net);
    ahead = after;
  }
  return area;
}

// Places of the numbers that lie in crossing buckets, sorted: put bucket by bucket, then each
// bucket of a few by itself.
std::span<const float> Transport::sorted_in_crossings(std::span<const float> numbers,
                                                      int32_t Bucket::*how_many,
                                                      std::vector<float>& sorted) {
  unsorted_.resize(numbers.size() + 1);
  size_t count = 0;
  for (const float x : numbers) {  // without a branch: nobody could predict it
    unsorted_[count] = place(x);
    count += crossing_[bucket_of(unsorted_[count])];
  }
  ends_.resize(buckets_.size());
  size_t end = 0;
  for (size_t k = 0; k < buckets_.size(); ++k) {
    ends_[k] = end;
    if (crossing_[k]) end += static_cast<size_t>(buckets_[k].*how_many);
  }
  sorted.resize(count);
  for (size_t i = 0; i < count; ++i) sorted[ends_[bucket_of(unsorted_[i])]++] = unsorted_[i];
  for (size_t k = 0; k < buckets_.size(); ++k) {
    if (!crossing_[k] || buckets_[k].*how_many < 2) continue;
    const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(ends_[k]);
    std::sort(last - buckets_[k].*how_many, last);
  }
  return sorted;
}

double Transport::area_in_crossings(std::span<const float> a, std::span<const float> b) {
  Rest rest_a = {sorted_in_crossings(a, &Bucket::a, a_)};
  Rest rest_b = {sorted_in_crossings(b, &Bucket::b, b_)};
  double area = 0;
  int64_t ahead = 0;
  for (size_t k = 0; k < buckets_.size(); ++k) {
    const auto left = static_cast<double>(k);
    if (crossing_[k]) area += area_between(left, left + 1, ahead, rest_a, rest_b);
    ahead += buckets_[k].a - buckets_[k].b;
  }
  return area;
}

double Transport::cost(std::span<const float> a, std::span<const float> b, const Interval& range) {
  const float width = range.high - range.low;
  if (!std::isfinite(width)) return std::numeric_limits<double>::quiet_NaN();
  if (width <= 0) return 0;
  buckets_.assign(bucket_count(a.size()), Bucket{});
  crossing_.resize(buckets_.size());
  low_ = range.low;
  factor_ = static_cast<float>(buckets_.size()) / width;
  count(a, b);
  const double area = area_outside_crossings();
  return (area + area_in_crossings(a, b)) / factor_;
}

}  // namespace gantrain
