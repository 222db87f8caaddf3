// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gantrain {

// What a GPU is given to do: launches of kernels, and the bytes that they read and write, each
// tensor once a kernel. What cuDNN and cuBLAS launch beside a product's own kernel is not known.
struct GpuWork {
  double calls = 0, kernels = 0, read = 0, written = 0;
  // Of convolutions and matrix products alone: operands read once, results written once.
  double floor = 0;

  double bytes() const { return read + written; }
  void add(const GpuWork& more);
};

using GpuOperators = std::map<std::string, GpuWork>;  // by operator: "aten::mul", "modulated_act"

// What happened in a phase.
struct CountedPhase {
  GpuOperators graphs;  // given by replays of device graphs
  GpuOperators eager;   // launched one by one
  double replays = 0;
};

// While it lives, LibTorch's meta device, whose tensors have shapes and no numbers, stands for a
// GPU: is_gpu() is true of it, it has the kernels of the CUDA library and records graphs, and
// whatever this thread gives to it is counted. Nothing is computed, so that networks and batches of
// any size take a few seconds and no memory. A tensor that is copied to the CPU holds zeros there,
// and reading one throws c10::Error. Operators must have a rule here or a shape function in
// LibTorch; c10::Error names one that has neither. One at a time.
class GpuCount {
 public:
  GpuCount();
  ~GpuCount();
  GpuCount(const GpuCount&) = delete;
  GpuCount& operator=(const GpuCount&) = delete;

  // What follows belongs to that phase; in the phase "" nothing counts.
  void enter(const std::string& phase);
  const std::map<std::string, CountedPhase>& phases() const;
};

}  // namespace gantrain
