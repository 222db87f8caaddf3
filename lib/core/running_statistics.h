// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace gantrain {

// What forward passes in training mode would do to running statistics (batch normalisation's means
// and variances). A phase returns this as a value instead of moving the buffers itself, so that it
// can be run twice and leaves nothing behind.
class RunningStatistics {
 public:
  // The tensor that a forward pass moves in the place of `buffer`. At the first call it is a copy
  // of `buffer`; later calls return the same tensor, so that several forwards move it in turn.
  at::Tensor& next(const at::Tensor& buffer);
  // Appends what `other` has noted. A buffer must not be in both.
  void add(const RunningStatistics& other);
  // Copies each moved tensor into its buffer.
  void apply() const;
  bool empty() const { return moved_.empty(); }

 private:
  struct Moved {
    at::Tensor buffer, next;
  };
  std::vector<Moved> moved_;
};

// While it lives, forward passes of this thread note in `into` how they would move running
// statistics. Without one they move their buffers at once, as torch's modules do. Scopes nest: the
// innermost counts. `into` must outlive it.
class RunningStatisticsScope {
 public:
  explicit RunningStatisticsScope(RunningStatistics& into);
  ~RunningStatisticsScope();
  RunningStatisticsScope(const RunningStatisticsScope&) = delete;
  RunningStatisticsScope& operator=(const RunningStatisticsScope&) = delete;

 private:
  RunningStatistics* outer_;
};

// Where this thread's forward passes note their running statistics, or null.
RunningStatistics* noted_running_statistics();

}  // namespace gantrain
