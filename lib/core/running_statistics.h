// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace gantrain {

// The changes that forward passes in training mode make to running statistics (batch
// normalisation's means and variances). A phase returns them as a value instead of changing the
// buffers itself, so that it can be run twice and leaves nothing behind.
class RunningStatistics {
 public:
  // Returns the tensor that a forward pass changes in place of `buffer`. The first call returns a
  // copy of `buffer`; later calls return the same tensor, so that several forward passes change it
  // in turn.
  at::Tensor& next(const at::Tensor& buffer);
  // Appends the changes that `other` holds. A buffer must not be in both.
  void add(const RunningStatistics& other);
  // Copies each changed tensor into its buffer.
  void apply() const;
  bool empty() const { return moved_.empty(); }

 private:
  struct Moved {
    at::Tensor buffer, next;
  };
  std::vector<Moved> moved_;
};

// While this object lives, forward passes of this thread write their changes of running statistics
// to `into`. Outside any such scope they change their buffers at once, as torch's modules do.
// Scopes may be nested: the innermost one is used. `into` must outlive the scope.
class RunningStatisticsScope {
 public:
  explicit RunningStatisticsScope(RunningStatistics& into);
  ~RunningStatisticsScope();
  RunningStatisticsScope(const RunningStatisticsScope&) = delete;
  RunningStatisticsScope& operator=(const RunningStatisticsScope&) = delete;

 private:
  RunningStatistics* outer_;
};

// Returns the object to which this thread's forward passes write their running statistics, or null.
RunningStatistics* noted_running_statistics();

}  // namespace gantrain
