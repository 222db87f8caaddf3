// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/safetensors.h"

namespace torch::nn {
class Module;
}

namespace gantrain {

// Samples of the global batch: `first`, first + stride, ..., `count` in all. They are a rank's
// micro-batch, because ranks take every W-th sample.
struct Samples {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

// Pictures with their classes on their way from the data to a loss, a rank's share of a global
// batch or a part of it.
struct Batch {
  at::Tensor real;    // [m, C, R, R]: bytes at first, in [-1, 1] of the networks' type for a loss
  at::Tensor labels;  // int64 [m]; undefined without labels
};

// Draw float32 [samples.count, shape...] on the CPU. Row i holds the draws of global sample first +
// i * stride: N(0, 1), or uniform in [0, 1).
at::Tensor normal(const Stream& stream, const Samples& samples, at::IntArrayRef shape);
at::Tensor uniform(const Stream& stream, const Samples& samples, at::IntArrayRef shape);

// Draws a tensor of the same shape from N(0, 1), which depends on the seed and the purpose alone.
// Initial weights are drawn so.
at::Tensor normal_like(const at::Tensor& tensor, uint64_t seed, const std::string& purpose);

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

// Returns the parameters, then the buffers, with their registered names. These are the tensors
// themselves, not copies.
NamedTensors state_of(const torch::nn::Module& network);
// The same tensors, each with its kind.
StateTensors state_with_kinds(const torch::nn::Module& network);
// Drops the kinds.
NamedTensors named(const StateTensors& state);

// Moves parameters and buffers to the device. Those of floating point also become `dtype`
// (LibTorch's Module::to would turn counters into floats as well). The tensors stay the same
// objects.
void to_device(torch::nn::Module& network, at::Device device, at::ScalarType dtype);

// Returns the SHA-256 of names and bytes, so that runs can state that they have the same weights.
std::string sha256_of(const NamedTensors& tensors);

// Copies tensors into the parameters and buffers of the network: each is looked up as `prefix` +
// its name. Throws UserError(kInput) that names the file `source` and the first tensor that is
// missing or has another shape. Tensors that the network does not have are ignored.
void load_into(const torch::nn::Module& network,
               const std::map<std::string, at::Tensor>& tensors,
               const std::string& source,
               const std::string& prefix = "");

// Throws UserError(kInput) that names `source` and the first tensor, by name, which has a value
// that is not finite: such weights draw and train nothing.
void refuse_nonfinite(const std::map<std::string, at::Tensor>& tensors, const std::string& source);

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

// Turns pictures into uint8 on the CPU, of the same shape. Floating-point values in [-1, 1] become
// floor(x * 127.5 + 128), clamped to 0..255, and NaN becomes black; uint8 stays as it is. The input
// may lie on any device.
at::Tensor to_bytes(const at::Tensor& images);

}  // namespace gantrain
