// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/random.h"
#include "core/safetensors.h"

namespace torch::nn {
class Module;
}

namespace gantrain {

// Global samples first, first + stride, ... of a batch: a rank's micro-batch of the strided split.
struct Samples {
  int64_t first = 0;
  int64_t stride = 1;
  int64_t count = 0;
};

// [samples.count, shape...] float32 on the CPU, sample i drawn as global sample first + i*stride.
at::Tensor normal(const Stream& stream, const Samples& samples, at::IntArrayRef shape);
at::Tensor uniform(const Stream& stream, const Samples& samples, at::IntArrayRef shape);

// One N(0, 1) draw of the tensor's shape that depends on seed and purpose alone: initial weights.
at::Tensor normal_like(const at::Tensor& tensor, uint64_t seed, const std::string& purpose);

// What a tensor of a run's state is.
enum class StateKind {
  kParameter,         // moved by an optimizer, or an average of what is
  kRunningStatistic,  // moved by forward passes; ranks may have their own (dist.broadcast_buffers)
  kConstant,          // a buffer that nothing moves, or that counts
  kOptimizer,         // moments, step counts, loss scales
  kRecipe,            // what a recipe keeps between iterations
};
struct StateTensor {
  std::string name;
  at::Tensor tensor;
  StateKind kind;
};
using StateTensors = std::vector<StateTensor>;

// A module some of whose own buffers are moved by its forward passes in training mode.
struct HasRunningStatistics {
  virtual ~HasRunningStatistics() = default;
  virtual std::vector<std::string> running_statistics() const = 0;  // names of own buffers
};

// Parameters, then buffers, under their registered names; the tensors themselves, not copies.
NamedTensors state_of(const torch::nn::Module& network);
// The same with what each of them is.
StateTensors state_with_kinds(const torch::nn::Module& network);
// Names and tensors alone.
NamedTensors named(const StateTensors& state);

// Moves parameters and buffers; floating-point ones also change their type (LibTorch's own
// Module::to would turn counters into floats as well). The tensors stay the same objects.
void move_to(torch::nn::Module& network, at::Device device, at::ScalarType dtype);

// SHA-256 over names and bytes, for "same weights" statements.
std::string sha256_of(const NamedTensors& tensors);

// Copies tensors by name into the network. Throws UserError(kInput) that names file `source` and
// the first tensor that is missing or has another shape; what the network lacks is ignored.
void load_into(const torch::nn::Module& network,
               const std::map<std::string, at::Tensor>& tensors,
               const std::string& source,
               const std::string& prefix = "");

}  // namespace gantrain
