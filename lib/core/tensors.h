// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/tensor_files.h"

namespace torch::nn {
class Module;
}

namespace gantrain {

// Samples of the global batch: `first`, first + stride, ..., `count` in all. Ranks take every W-th.
struct Samples {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

// Pictures with their classes on their way from the data to a loss.
struct Batch {
  at::Tensor real;    // [m, C, R, R]: bytes at first, in [-1, 1] of the networks' type for a loss
  at::Tensor labels;  // int64 [m], or vectors, float32 [m, L]; undefined without labels
};

// Draw float32 [samples.count, shape...] on the CPU. Row i holds the draws of global sample first +
// i * stride: N(0, 1), or uniform in [0, 1).
at::Tensor normal(const Stream& stream, const Samples& samples, at::IntArrayRef shape);
at::Tensor uniform(const Stream& stream, const Samples& samples, at::IntArrayRef shape);

// Draw initial weights of the tensor's shape by the seed and the purpose alone: N(0, 1), or uniform
// in +-bound.
at::Tensor normal_like(const at::Tensor& tensor, uint64_t seed, const std::string& purpose);
at::Tensor uniform_like(const at::Tensor& tensor,
                        double bound,
                        uint64_t seed,
                        const std::string& purpose);

// What a tensor of a run's state is.
enum class StateKind {
  kParameter,         // changed by an optimizer, or an average of such a tensor
  kRunningStatistic,  // changed by forward passes; may differ by rank (dist.broadcast_buffers)
  kConstant,          // a buffer that never changes, or a counter
  kOptimizer,         // moments, step counts, loss scales
  kRecipe,            // state that a recipe keeps between iterations
};
struct StateTensor {
  std::string name;
  at::Tensor tensor;
  StateKind kind;
};
using StateTensors = std::vector<StateTensor>;

// A module whose forward passes in training mode change some of its own buffers.
struct HasRunningStatistics {
  virtual ~HasRunningStatistics() = default;
  virtual std::vector<std::string> running_statistics() const = 0;  // names of these buffers
};

// Returns the parameters, then the buffers, with their registered names: the tensors themselves.
NamedTensors state_of(const torch::nn::Module& network);
// The same tensors, each with its kind.
StateTensors state_with_kinds(const torch::nn::Module& network);
// Drops the kinds.
NamedTensors named(const StateTensors& state);

// Moves parameters and buffers to the device; those of floating point also become `dtype`
// (Module::to would turn counters into floats as well). The tensors stay the same objects.
void to_device(torch::nn::Module& network, at::Device device, at::ScalarType dtype);

// Returns the SHA-256 of names and bytes, so that runs can state that they have the same weights.
std::string sha256_of(const NamedTensors& tensors);

// Copies into each parameter and buffer of the network the tensor of the name `prefix` + its own.
// Throws UserError(kInput) that names the file `source` and the first one that is missing or has
// another shape.
void load_into(const torch::nn::Module& network,
               const std::map<std::string, at::Tensor>& tensors,
               const std::string& source,
               const std::string& prefix = "");

// Throws UserError(kInput) that names `source` and the first tensor with a value that is not
// finite.
void refuse_nonfinite(const std::map<std::string, at::Tensor>& tensors, const std::string& source);

// The changes that forward passes in training mode make to running statistics. A phase returns them
// instead of changing the buffers itself, so that it can be run twice and leaves nothing behind.
class RunningStatistics {
 public:
  // Returns the tensor that forward passes change in turn in place of `buffer`: at first its copy.
  at::Tensor& next(const at::Tensor& buffer);
  // Appends the changes that `other` holds. A buffer must not be in both.
  void add(const RunningStatistics& other);
  void apply() const;  // to the buffers
  bool empty() const { return moved_.empty(); }

 private:
  struct Moved {
    at::Tensor buffer, next;
  };
  std::vector<Moved> moved_;
};

// While this object lives, forward passes of this thread write their changes of running statistics
// to `into`, which must outlive it; outside of any such scope they change their buffers at once.
// Of nested scopes the innermost one is used.
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

// Turns pictures on any device into uint8 on the CPU. Floating-point values in [-1, 1] become
// floor(x * 127.5 + 128), clamped to 0..255, and NaN becomes black; uint8 stays as it is.
at::Tensor to_bytes(const at::Tensor& images);

}  // namespace gantrain
