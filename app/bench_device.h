// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>

namespace gantrain {

// Where a benchmark computes, and how long work takes there. It is made in the child that measures
// (bench_common.h), before anything is computed.
class BenchDevice {
 public:
  // The CPU, or the first visible GPU, whose CUDA library must have been loaded.
  explicit BenchDevice(bool cuda);

  c10::Device device() const { return device_; }
  // "NVIDIA H100 80GB HBM3", or "" for a CPU.
  const std::string& name() const { return name_; }

  // Returns the seconds that `run` takes alone. On a GPU it is called often enough, between two
  // waits for the GPU, that what the host needs to give the work away is hidden behind the work,
  // unless it takes longer than that.
  double seconds(const std::function<void()>& run) const;
  // Returns the bytes per second, read and written ones together, of a large copy within this
  // device's memory.
  double copy_speed() const;

 private:
  c10::Device device_;
  std::string name_;
};

}  // namespace gantrain
