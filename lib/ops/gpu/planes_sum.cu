// SPDX-License-Identifier: Apache-2.0
// The second stage of sums over feature maps: the first one leaves a number for each part, of which
// there are a few for each block. Latency bounds it, not bandwidth, so that several threads share
// the parts of a channel out; which of them gets which does not depend on the device.
#include "ops/gpu/planes_walk.h"

namespace gantrain::cuda_kernels {

namespace {

// One of the sums of a launch. sharing_ threads add up one result. Threads that follow each other
// in memory are neighbours: those of different channels in kRows, those of one channel in kPlanes.
template <class T>
class OnePartsSum {
 public:
  static constexpr int kThreads = 256;
  using Number = Wide<T>;

  OnePartsSum() = default;
  explicit OnePartsSum(const PartsSum& how)
      : results_(how.shape.channels * (how.over_samples ? 1 : how.shape.samples)),
        channels_(how.shape.channels),
        parts_(how.shape.parts),
        count_(how.shape.parts * (how.over_samples ? how.shape.samples : 1)),
        factor_(static_cast<Number>(how.factor)),
        from_(static_cast<const Number*>(how.parts)),
        to_(static_cast<T*>(how.out)) {
    // One part a channel lies in memory as if in rows.
    rows_ = how.shape.order == Order::kRows || how.shape.parts == 1;
    // In rows, 32 threads leave 8 floats side by side, which fill a memory sector. Where there are
    // few channels, waiting costs more than reading sectors several times.
    constexpr int64_t kEach = 4, kMostInRows = 32, kFew = 1 << 15;
    const auto most = [&] { return rows_ && results_ * sharing_ >= kFew ? kMostInRows : kThreads; };
    while (sharing_ < most() && sharing_ * kEach < count_) sharing_ *= 2;
  }
  int64_t blocks() const { return blocks_for(results_, kThreads / sharing_); }

  // `values` are the block's.
  GANTRAIN_BOTH void step(int number, const Place& place, Number* values) const {
    const int together = kThreads / sharing_;  // results of a block
    const int share = rows_ ? place.thread / together : place.thread % sharing_;
    const int which = rows_ ? place.thread % together : place.thread / sharing_;
    const int stride = rows_ ? together : 1;  // in shared memory, from share to share
    Number* mine = values + place.thread;
    const int64_t result = place.block * together + which;
    if (result >= results_) return;
    if (number == 0) {
      *mine = sum_of(result, share);
    } else if (number == 1 && share % kFolded == 0) {
      *mine = sum_of_shares(mine, stride, sharing_ - share < kFolded ? sharing_ - share : kFolded);
    } else if (number == 2 && share == 0) {
      const int left = (sharing_ + kFolded - 1) / kFolded;
      to_[result] = rounded<T>(factor_ * sum_of_shares(mine, stride * kFolded, left));
    }
  }

 private:
  GANTRAIN_BOTH static Number sum_of_shares(const Number* values, int stride, int count) {
    Number sum = 0;
    for (int i = 0; i < count; ++i) sum += values[i * stride];
    return sum;
  }

  GANTRAIN_BOTH Number sum_of(int64_t result, int share) const {
    const int64_t sample = channels_.quotient(result);
    const int64_t channels = channels_.divisor, channel = result - sample * channels;
    Number sum = 0;
    if (rows_) {
      const Number* from = from_ + sample * parts_.divisor * channels + channel;
      for (int64_t k = share; k < count_; k += sharing_) sum += from[k * channels];
    } else {
      const Number* from = from_ + result * parts_.divisor;
      for (int64_t k = share; k < count_; k += sharing_) {
        // Between the parts of a channel in two samples lie those of all other channels.
        const int64_t others = parts_.quotient(k) * (channels - 1);
        sum += from[others * parts_.divisor + k];
      }
    }
    return sum;
  }

  int64_t results_ = 0;
  LongDivider channels_, parts_;
  int64_t count_ = 0;  // numbers of a result
  Number factor_ = 1;
  const Number* from_ = nullptr;
  T* to_ = nullptr;
  bool rows_ = false;
  int sharing_ = 1;
};

// The blocks of each sum follow those of the one before.
template <class T>
struct PartsSumBody {
  static constexpr int kThreads = OnePartsSum<T>::kThreads;
  using Number = Wide<T>;
  struct Shared {
    Number values[kThreads];
  };
  struct Local {};

  OnePartsSum<T> sums[PartsSums::kMost];
  int64_t ends[PartsSums::kMost];  // the block after its last one

  explicit PartsSumBody(const PartsSums& how) {
    int64_t end = 0;
    for (int k = 0; k < PartsSums::kMost; ++k) {
      if (k < how.count) {
        sums[k] = OnePartsSum<T>(how.all[k]);
        end += sums[k].blocks();
      }
      ends[k] = end;
    }
  }
  int64_t blocks() const { return ends[PartsSums::kMost - 1]; }

  GANTRAIN_BOTH int steps() const { return 3; }
  GANTRAIN_BOTH void step(int number, const Place& place, Shared& shared, Local& /*local*/) const {
    int which = 0;
    while (place.block >= ends[which]) ++which;
    const int64_t begin = which == 0 ? 0 : ends[which - 1];
    sums[which].step(number, {place.block - begin, place.thread}, shared.values);
  }
};

}  // namespace

void sum_parts(const PartsSum& how, Stream stream) {
  PartsSums alone;
  alone.add(how);
  sum_all_parts(alone, stream);
}

void sum_all_parts(const PartsSums& how, Stream stream) {
  if (how.count == 0) return;
  with_type(how.all[0].type, [&](auto tag) {
    const PartsSumBody<typename decltype(tag)::type> body(how);
    launch(body, body.blocks(), stream);
  });
}

}  // namespace gantrain::cuda_kernels
