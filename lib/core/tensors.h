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
void move_to(torch::nn::Module& network, at::Device device, at::ScalarType dtype);

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

}  // namespace gantrain
