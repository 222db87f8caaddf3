// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace gantrain {

// Says which picture of the data is the n-th real image shown, counted over all ranks from 0. Pass
// p = n / size is a permutation of the data keyed by (seed, p), so a pass drops and repeats
// nothing, and any n can be asked for at any time. Thread-safe.
class Sampler {
 public:
  Sampler(int64_t size, uint64_t seed, bool mirror);

  int64_t index(int64_t image) const;
  // Whether image n is shown flipped left to right; never without `mirror`.
  bool flipped(int64_t image) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order_of(int64_t pass) const;

  int64_t size_;
  uint64_t seed_;
  bool mirror_;
  mutable std::mutex mutex_;
  struct Pass {
    int64_t number = -1;
    Order order;
  };
  mutable Pass recent_[2];  // a batch may touch the tail of one pass and the head of the next
};

}  // namespace gantrain
